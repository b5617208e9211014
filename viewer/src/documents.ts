// How a page holds its documents; their types are generated (types.ts).
import type { DiagnosisDocument } from "./types";

export type { DiagnosisDocument as Diagnosis, Expected, Finding, Layer, Picture, Prescription, Seeds, View } from "./types";

export interface Known {
  gap: number;
  slope: number;
  trained: boolean;
  family?: string;
}

export interface PageData {
  documents: DiagnosisDocument[];
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
