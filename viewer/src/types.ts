// The documents of every kind, by the names of their JSON fields.
import type { Diagnosis, Statement } from "./documents";
import type { Effect, Prescription } from "./prescriptions";

export type DiagnosisDocument = Diagnosis;

export interface DepthFinding {
  check: string;
  symptom: string;
  severity: string;
  reason: string;
}

export interface PredictedDepth {
  depth: number;
  rms: number | null;
  overlap: number | null;
  overlap_deviation: number | null;
  gap: number | null;
  effective_rank: number | null;
  isometry_gap: number | null;
  gradient_growth: number | null;
  verdict: string;
  findings: DepthFinding[];
}

export interface PredictionDocument {
  schema: string;
  name: string;
  summary: string;
  samples: number;
  width: number;
  overlap: number | null;
  deepest: number | null;
  at_risk_from: number | null;
  sick_from: number | null;
  depths: PredictedDepth[];
  not_checked: { check: string; reason: string }[];
  limit: (Statement & { name: string; value: number | null; unit: string })[];
  sources: Statement[];
  seconds: number;
  environment: Record<string, unknown>;
}

export interface ResidualBlock {
  name: string;
  skip: string;
  activation: string | null;
  inputs: number;
  outputs: number;
  singular_values: (number | null)[];
  relative_error: number | null;
  rank_ratio: number | null;
  top_energy: number | null;
  misalignment: number | null;
  step: number | null;
  dead: boolean;
}

export interface ResidualDocument {
  schema: string;
  name: string;
  verdict: string;
  summary: string;
  statements: { key: string; statement: string; quantity: string; value: number | null; limit: number; above: boolean; holds: boolean | null }[];
  samples: number;
  classes: number;
  line_shape: number | null;
  step_cosine: number | null;
  spacing_variation: number | null;
  misalignment: number | null;
  reversed_misalignment: number | null;
  law: { slope: number | null; intercept: number | null; r_squared: number | null; exponent: number | null };
  whole: { mean_log: number | null; spread_log: number | null } | null;
  blocks: ResidualBlock[];
  pairs: (number | null)[][];
  left_out: { name: string; reason: string }[];
  notes: string[];
  seconds: number;
  environment: Record<string, unknown>;
}

export interface LayerProfile {
  gap: number | null;
  effective_rank: number | null;
  overlap: number | null;
  rms: number | null;
  gradient_norm: number | null;
}

export interface ComparisonDocument {
  schema: string;
  name: string;
  verdict: { before: string; after: string };
  improved: boolean;
  summary: string;
  numbers: { name: string; before: number | null; after: number | null; unit: string }[];
  vanished: (DepthFinding & { layer: string | null })[];
  appeared: (DepthFinding & { layer: string | null })[];
  layers: { name: string; call: number; depth: number | null; before: LayerProfile | null; after: LayerProfile | null }[];
  before: DiagnosisDocument;
  after: DiagnosisDocument;
  environment: Record<string, unknown>;
}

export interface ConfirmationDocument {
  schema: string;
  name: string;
  verdict: string;
  outcome: string;
  confirmed: boolean | null;
  summary: string;
  final_loss: number | null;
  guessing_loss: number | null;
  reference_loss: number | null;
  reference: string;
  source: string;
  steps: number;
  runs: { learning_rate: number; final: number | null; best: number | null; stopped: string; losses: (number | null)[] }[];
  environment: Record<string, unknown>;
}

export interface FixDocument {
  schema: string;
  name: string;
  outcome: string;
  sentence: string;
  verdict: { before: string; after: string };
  steps: Prescription[];
  plan: Prescription[];
  snippet: string;
  comparison: ComparisonDocument;
  confirmation: { before: ConfirmationDocument; after: ConfirmationDocument } | null;
  environment: Record<string, unknown>;
}

export interface UpdateRow {
  step: number;
  optimizer: string;
  weight: string;
  shape: number[];
  gradient_norm: number | null;
  relative_size: number | null;
  rms_operator_norm: number | null;
  effective_rank: number | null;
  semi_orthogonality_defect: number | null;
  update_alignment: number | null;
  independence: number | null;
  independence_change: number | null;
  angle_change: number | null;
}

export interface WatchDocument {
  schema: string;
  name: string;
  every: number;
  steps: number;
  history: { step: number; verdict: string; summary: string; scalars: Record<string, number>; seconds: number }[];
  latest: DiagnosisDocument | null;
  rows: UpdateRow[];
  skipped: { name: string; reason: string }[];
  problems: string[];
  stopped: string | null;
  environment: Record<string, unknown>;
}

export type { Effect, Prescription };
