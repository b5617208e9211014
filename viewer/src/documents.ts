// The documents that are drawn (src/orthoscope/report/schema.json), and how a page holds them.

export interface View {
  gap: number | null;
  isometry_gap: number | null;
  effective_rank: number | null;
  stable_rank: number | null;
  numerical_rank: number | null;
  overlap: number | null;
  mean_energy: number | null;
}

export interface Expected {
  rms: number | null;
  overlap: number | null;
  gap: number | null;
  effective_rank: number | null;
  isometry_gap: number | null;
  gradient_norm: number | null;
}

export interface Picture {
  centered_rank: number | null;
  eigenvalues: number[];
  overlaps: { low: number; high: number; counts: number[] };
  gram: { size: number; cosines: string };
}

export interface Layer {
  name: string;
  call: number;
  kind: string;
  depth: number | null;
  shape: number[];
  samples: number;
  units: number;
  status: string;
  rms: number | null;
  gradient_norm: number | null;
  weight_gradient_norm: number | null;
  rank_deficient: boolean;
  sample_view: View | null;
  token_view: View | null;
  also: string[];
  predicted: Expected | null;
  picture?: Picture;
  weight_spectrum?: { out: number; in: number; values: number[] };
}

export interface Finding {
  check: string;
  symptom: string;
  state: string;
  severity: string;
  layer: string | null;
  reason: string;
  value: number | null;
  standard_error: number | null;
  unit: string | null;
  threshold: number | null;
}

export interface Statement {
  source: string;
  assumes: string;
}

export interface SeedRange {
  low: (number | null)[];
  high: (number | null)[];
}

export interface Seeds {
  seeds: number[];
  verdicts: string[];
  gaps: (number | null)[];
  slopes: (number | null)[];
  ranges: Record<string, SeedRange>;
}

export interface Diagnosis {
  schema: string;
  name: string;
  verdict: string;
  summary: string;
  symptoms: string[];
  findings: Finding[];
  slope: { value: number | null; standard_error: number | null; layers: number; unit: string };
  gap: number | null;
  prediction: { reason: string | null; slope: number | null; sources: Statement[] };
  parameters: number;
  samples: number;
  gradient_of: string | null;
  input: Layer;
  layers: Layer[];
  unobserved: { name: string; reason: string }[];
  notes: string[];
  seconds: number;
  environment: Record<string, unknown>;
  seeds?: Seeds;
  risk?: { value: number | null; networks: number };
  prescriptions?: unknown;
  next_steps?: string[];
  residual?: { blocks: { name: string }[] };
}

export interface Known {
  gap: number;
  slope: number;
  trained: boolean;
  family?: string;
}

export interface PageData {
  documents: Diagnosis[];
  reference_cloud: Known[];
  live: LiveOptions | null;
}

export interface LiveOptions {
  token: string;
  follow: string | null;
  activations: string[];
  norms: string[];
  inits: string[];
}

type Column = { values: unknown; at?: number[] };
interface Table {
  $table: number;
  nulls?: number[];
  columns: Record<string, Column>;
}

/** Undo report/packing.py: tables of columns become lists of objects again. */
export function unpacked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== "object") return value;
  if (!("$table" in value)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpacked(inner)]));
  }
  const table = value as Table;
  const nulls = new Set(table.nulls ?? []);
  const rows: (Record<string, unknown> | null)[] = Array.from({ length: table.$table }, (_, i) => (nulls.has(i) ? null : {}));
  const present = rows.filter((row) => row !== null);
  for (const [key, column] of Object.entries(table.columns)) {
    const values = unpacked(column.values) as unknown[];
    values.forEach((inner, i) => {
      const row = present[column.at ? column.at[i] : i];
      Object.defineProperty(row, key, { value: inner, enumerable: true, writable: true, configurable: true });
    });
  }
  return rows;
}
