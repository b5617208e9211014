// Generated from src/orthoscope/report/document by `make viewer`: do not edit.

/** One of the statements RA1 to RA4: what it says, the number that decides it, and its limit. */
export interface AlignmentStatement {
  /** Which of the four. */
  key: string;
  /** What it says. */
  statement: string;
  /** The number that decides it, in words. */
  quantity: string;
  /** Median of this number over samples; null if it could not be measured. */
  value: number | null;
  /** Limit of the number. */
  limit: number;
  /** Whether the number must be above the limit, or below. */
  above: boolean;
  /** Whether the statement holds; null if it could not be measured. */
  holds: boolean | null;
}

/** RA4: the line of 1/σ₁ over depth, and the exponent of depth in σ₁. */
export interface DepthLaw {
  /** Slope of the line. */
  slope: number | null;
  /** Intercept of the line. */
  intercept: number | null;
  /** Share of the variance that the line explains. */
  r_squared: number | null;
  /** Exponent of depth in σ₁; -1 is the law. */
  exponent: number | null;
}

/** Logarithms of the singular values of the Jacobian of the whole network. */
export interface LogSingularValues {
  /** Their mean; 0 for dynamical isometry. */
  mean_log: number | null;
  /** Their standard deviation; 0 for dynamical isometry. */
  spread_log: number | null;
}

/** The Jacobian of one residual branch, without the skip connection. */
export interface Block {
  /** Name of the block. */
  name: string;
  /** What runs beside the branch. */
  skip: string;
  /** Activation after the sum; its slope multiplies the Jacobian. */
  activation: string | null;
  /** Columns of the Jacobian. */
  inputs: number;
  /** Rows of the Jacobian. */
  outputs: number;
  /** Largest singular values. */
  singular_values: (number | null)[];
  /** Largest error of the first, relative; 0 where it is exact. */
  relative_error: number | null;
  /** RA3: first singular value past the number of classes, over the largest. */
  rank_ratio: number | null;
  /** RA3: share of the energy in as many directions as there are classes. */
  top_energy: number | null;
  /** RA2: mean over the other blocks; 0 for shared singular vectors. */
  misalignment: number | null;
  /** Length of what the block adds; null between stages. */
  step: number | null;
  /** Whether the Jacobian is zero at every sample. */
  dead: boolean;
}

/** A module, parameter or branch that was left out. */
export interface Omission {
  /** Its name. */
  name: string;
  /** Why it was left out. */
  reason: string;
}

/** What the numbers were made with. */
export interface Environment {
  /** Version of Orthoscope. */
  orthoscope: string;
  /** Version of Python. */
  python: string;
  /** Version of PyTorch. */
  torch: string;
  /** Operating system and processor, as Python names them. */
  platform: string;
  /** Threads that PyTorch used. */
  threads: number;
}

/** How the Jacobians of residual blocks align; numbers are medians over samples, null is undefined. */
export interface ResidualDocument {
  schema: "orthoscope.residual/1";
  /** Name of the network. */
  name: string;
  /** How many statements hold. */
  verdict: string;
  /** One sentence: what holds, what does not, what is not known. */
  summary: string;
  /** RA1 to RA4. */
  statements: AlignmentStatement[];
  /** Samples at which the Jacobians are taken. */
  samples: number;
  /** Directions that the Jacobians may have. */
  classes: number;
  /** RA1: 1 for a straight path of the representations. */
  line_shape: number | null;
  /** RA1: mean cosine of adjacent steps. */
  step_cosine: number | null;
  /** RA1: standard deviation of step lengths over their mean. */
  spacing_variation: number | null;
  /** RA2: 0 for shared singular vectors, 1 for unrelated ones. */
  misalignment: number | null;
  /** RA2 with left and right singular vectors exchanged. */
  reversed_misalignment: number | null;
  /** RA4: how the largest singular value depends on depth. */
  law: DepthLaw;
  /** The network from input to output; null if not all are known. */
  whole: LogSingularValues | null;
  /** Every residual block, in order. */
  blocks: Block[];
  /** Misalignment of block i with the singular vectors of block j. */
  pairs: ((number | null)[])[];
  /** Modules whose additions are no residual branch. */
  left_out: Omission[];
  /** Remarks on the measurement. */
  notes: string[];
  /** Time that it took. */
  seconds: number;
  /** What the numbers were made with. */
  environment: Environment;
}

/** How likely it is that the network trains; the risk decides, and where too little was checked, nothing is said. */
export type Verdict = "HEALTHY" | "UNKNOWN" | "AT RISK" | "SICK";

/** The probability that the network does not train, and what this number rests on. */
export interface Risk {
  /** Probability of not training; null where nothing could be judged. */
  value: number | null;
  /** Networks that were trained to fit it. */
  networks: number;
  /** Share of other networks for which the verdict was right. */
  accuracy: number;
  /** Share of other networks that train and were called sick. */
  false_alarms: number;
  /** Number of those other networks. */
  tested_on: number;
}

/** What goes wrong. */
export type Symptom = "collapse" | "vanish" | "explode" | "degenerate input" | "attention" | "routing" | "disconnected" | "scale" | "loss" | "slow";

/** The three ways a check can end. */
export type State = "found" | "clean" | "not checked";

/** The outcome of one check. */
export interface Finding {
  /** Name of the check. */
  check: string;
  /** What the check looks for. */
  symptom: Symptom;
  /** Whether it was found, was not found, or could not be checked. */
  state: State;
  /** How bad it is. */
  severity: Verdict;
  /** Module where it begins. */
  layer: string | null;
  /** Module to change, or "input"; null if no single one explains it. */
  cause?: string;
  /** One sentence: what was found, or why it was not checked. */
  reason: string;
  /** What was measured. */
  value: number | null;
  /** Its standard error, where it is an estimate. */
  standard_error: number | null;
  /** Unit of the value. */
  unit: string | null;
  /** The limit that was crossed, or the nearest one that was not. */
  threshold: number | null;
}

/** Growth of the logarithm of the gradient norm per weight layer toward the input. */
export interface Slope {
  /** Slope of the fitted line; null if no gradient was measured. */
  value: number | null;
  /** Standard error of the slope. */
  standard_error: number | null;
  /** Weight layers that the line spans. */
  layers: number;
  /** Unit of the slope. */
  unit: string;
}

/** A statement that a prediction rests on. */
export interface Source {
  /** Place in the literature. */
  source: string;
  /** What must hold for it. */
  assumes: string;
}

/** What theory says of the whole network; the numbers of its layers are with the layers. */
export interface PredictionSummary {
  /** Why there is no prediction; null if there is one. */
  reason: string | null;
  /** Predicted slope, at the layers where the slope is measured. */
  slope: number | null;
  /** Statements that the prediction rests on. */
  sources: Source[];
}

/** What can be trained, and what a first step does to the loss, to first order and per unit of learning rate. */
export interface Learning {
  /** Trainable parameters. */
  trainable: number;
  /** Trainable parameters that are connected with the loss. */
  connected: number;
  /** Decrease by a step along the gradient. */
  sgd_decrease: number | null;
  /** Decrease by a step along the sign of the gradient, as the first of Adam. */
  sign_decrease: number | null;
}

/** The loss before training, beside that of outputs that do not depend on the input. */
export interface InitialLoss {
  /** Loss of the batch; null if it is nan or infinite. */
  value: number | null;
  /** Kind of the loss, where it is recognized; else empty. */
  kind: string;
  /** Loss of a constant output, such as equal logits; null if it is not known. */
  guessing: number | null;
  /** Loss of the best constant output on these targets; null if unknown. */
  best_constant: number | null;
  /** Why the loss of guessing is not known; empty if it is. */
  reason: string;
}

/** What kind of representation came out of a module; only `measured` ones have metrics. */
export type Status = "measured" | "zero by design" | "dead" | "does not depend on the batch" | "not finite";

/** Metrics of the samples at a layer, or of the tokens within a sequence; null where undefined. */
export interface View {
  /** Orthogonality gap: 0 for orthogonal samples of equal length, near 1 for one direction. */
  gap: number | null;
  /** Isometry gap; null also where it is infinite: see rank_deficient. */
  isometry_gap: number | null;
  /** Exponential of the entropy of the singular values. */
  effective_rank: number | null;
  /** Squared Frobenius norm over squared spectral norm. */
  stable_rank: number | null;
  /** Number of singular values above rounding. */
  numerical_rank: number | null;
  /** Mean cosine similarity over pairs. */
  overlap: number | null;
  /** Share of the energy that is in the mean of the batch. */
  mean_energy: number | null;
  /** Standard deviation of the samples' lengths over their mean. */
  length_spread?: number;
}

/** The numbers of a layer that theory predicts; null where it predicts none. */
export interface Expected {
  /** Root mean square of the output. */
  rms: number | null;
  /** Mean cosine similarity over pairs of samples. */
  overlap: number | null;
  /** Orthogonality gap. */
  gap: number | null;
  /** Effective rank of the samples. */
  effective_rank: number | null;
  /** Isometry gap. */
  isometry_gap: number | null;
  /** Norm of the gradient with respect to the output. */
  gradient_norm: number | null;
}

/** Histogram of the cosines of pairs of samples, in equal bins from the least to the largest. */
export interface Overlaps {
  /** Least cosine. */
  low: number;
  /** Largest cosine. */
  high: number;
  /** Pairs in each bin. */
  counts: number[];
}

/** Cosines of evenly spaced samples i < j, row by row. */
export interface Gram {
  /** Number of samples. */
  size: number;
  /** Signed bytes of 127 times the cosine, in base64. */
  cosines: string;
}

/** What a page draws of the samples at a layer, rounded. */
export interface Picture {
  /** Effective rank of the samples around their mean; null if all are equal. */
  centered_rank: number | null;
  /** Every k-th eigenvalue of n·G/tr G, largest first, where G is the Gram matrix of n samples; their mean is 1. */
  eigenvalues: number[];
  /** Histogram of the cosines of pairs of samples. */
  overlaps: Overlaps;
  /** Cosines of some of the pairs, to be drawn as a matrix. */
  gram: Gram;
}

/** Singular values of the weight matrix of a layer. */
export interface WeightSpectrum {
  /** Rows of the matrix. */
  out: number;
  /** Columns of the matrix. */
  in: number;
  /** Every k-th singular value, largest first. */
  values: number[];
}

/** The output of one module call. */
export interface Layer {
  /** Name of the module, as in `model.named_modules()`. */
  name: string;
  /** 0 for the first call of this module in the pass. */
  call: number;
  /** Class of the module. */
  kind: string;
  /** Weight layers from the input; null without a weight matrix. */
  depth: number | null;
  /** Shape of the output. */
  shape: number[];
  /** Number of samples that the metrics compare. */
  samples: number;
  /** Numbers of one sample. */
  units: number;
  /** What kind of output it is; only measured ones have metrics. */
  status: Status;
  /** Root mean square of the output. */
  rms: number | null;
  /** Norm of the gradient with respect to the output; null if none arrived. */
  gradient_norm: number | null;
  /** Norm of the gradient with respect to the weight. */
  weight_gradient_norm: number | null;
  /** Whether the samples are linearly dependent, to float64. */
  rank_deficient: boolean;
  /** Metrics of the samples; null where nothing could be measured. */
  sample_view: View | null;
  /** Metrics of the tokens within a sequence; null without tokens. */
  token_view: View | null;
  /** Modules that returned the very same tensor. */
  also: string[];
  /** What theory predicts here; null where it says nothing. */
  predicted: Expected | null;
  /** What a page draws; absent where there is nothing to draw. */
  picture?: Picture;
  /** Spectrum of the weight; absent where it is expensive. */
  weight_spectrum?: WeightSpectrum;
}

/** One attention of the pass. */
export interface Attention {
  /** Module that attends. */
  module: string;
  /** 0 for the first attention of this module in the pass. */
  call: number;
  /** Queries of a sequence. */
  queries: number;
  /** Keys of a sequence. */
  keys: number;
  /** Largest size of a logit that the mask allows. */
  largest_logit: number | null;
  /** Mean entropy of the weights as a share of that of uniform ones. */
  entropy: number | null;
  /** Share of heads whose weights are nearly uniform. */
  uniform_heads: number;
  /** Share of heads in which one key gets nearly all the weight. */
  one_hot_heads: number;
  /** Share of queries for which the mask leaves one key or none. */
  lonely_queries: number;
  /** Whether weights add up to 1 over the keys; null if it is not known. */
  normalizes_keys: boolean | null;
  /** Weight layer that the queries come from; empty if none was seen. */
  queries_from: string;
  /** Weight layer that the keys come from; empty if none was seen. */
  keys_from: string;
}

/** The residual stream after one sum. */
export interface StreamPoint {
  /** Last weight layer of the branch that was added, or the module that adds. */
  name: string;
  /** Weight layers that were called before the sum. */
  after: number;
  /** Norm of the gradient with respect to the sum; null if none arrived. */
  gradient_norm: number | null;
  /** Root mean square of the sum. */
  rms: number | null;
  /** Root mean square of the branch over that of the stream it is added to. */
  branch_ratio: number | null;
}

/** The gradient along the time steps of one recurrent layer. */
export interface OverTime {
  /** Name of the module. */
  module: string;
  /** Class of the module. */
  kind: string;
  /** Number of time steps. */
  steps: number;
  /** Change of the log gradient norm from the last time step to the first. */
  growth: number | null;
  /** The same per step. */
  growth_per_step: number | null;
  /** Steps, up to the last, whose gradient is a thousandth of the largest. */
  reach: number;
  /** Share of gates and states that are saturated; null for unbounded units. */
  saturation: number | null;
  /** Log gradient norm at every step; null where it is zero. */
  log_norms: (number | null)[];
}

/** How a router shares the tokens of the batch among its experts. */
export interface Experts {
  /** Module that holds the experts. */
  module: string;
  /** Number of experts. */
  experts: number;
  /** Experts that a token goes to. */
  per_token: number;
  /** Tokens that were routed. */
  tokens: number;
  /** Effective number of experts: exponential of the entropy of the load. */
  effective: number;
  /** 0 if all tokens go to the same experts, 1 if all experts get as many. */
  balance: number | null;
  /** Share of the tokens that each expert got. */
  load: number[];
  /** Experts that got no token. */
  unused: number[];
}

/** A place in the trainability plane. */
export interface Effect {
  /** Orthogonality gap; null if unknown. */
  gap: number | null;
  /** Gradient slope; null if unknown. */
  slope: number | null;
  /** Why something is unknown; null if nothing is. */
  reason: string | null;
}

/** One change of the network, or advice for the training loop, and what became of it. */
export interface Prescription {
  /** What it is called. */
  name: string;
  /** One sentence: why it should help. */
  why: string;
  /** Code that makes the change. */
  code: string;
  /** Whether it is for the training loop, not for the model. */
  advice: boolean;
  /** Whether modules are replaced or added. */
  architecture: boolean;
  /** Where theory expects the network after the change. */
  predicted: Effect;
  /** Where it was measured; null if it was not tried. */
  measured: Effect | null;
  /** Verdict after the change; null if it was not tried. */
  verdict: Verdict | null;
  /** Whether it was kept, or why not. */
  outcome: string;
}

/** The least and the largest value of one quantity over seeds, layer by layer; null where it is never defined. */
export interface SeedRange {
  /** Least value at each layer. */
  low: (number | null)[];
  /** Largest value at each layer. */
  high: (number | null)[];
}

/** The same network drawn with several seeds; the diagnosis is of the first. */
export interface Seeds {
  /** The seeds. */
  seeds: number[];
  /** Verdict of each seed. */
  verdicts: Verdict[];
  /** Orthogonality gap of each seed. */
  gaps: (number | null)[];
  /** Gradient slope of each seed. */
  slopes: (number | null)[];
  /** Range over seeds at every layer, by the key of the quantity. */
  ranges: Record<string, SeedRange>;
}

/** One network: verdict, findings, and the numbers of every layer. */
export interface DiagnosisDocument {
  schema: "orthoscope.diagnosis/3";
  /** Name of the network, or what was asked for. */
  name: string;
  /** What follows from the risk. */
  verdict: Verdict;
  /** Optimizer that the network is to be trained with, if that was said. */
  optimizer?: "adamw" | "sgd" | "muon";
  /** One sentence: what was found, or that nothing was. */
  summary: string;
  /** What to do now, one sentence each; a command is between backquotes. */
  next_steps: string[];
  /** Probability that the network does not train. */
  risk: Risk;
  /** What was found, each once. */
  symptoms: Symptom[];
  /** The outcome of every check. */
  findings: Finding[];
  /** Growth of the gradient toward the input. */
  slope: Slope;
  /** Orthogonality gap at the quoted layer; null if nothing was measured. */
  gap: number | null;
  /** Index of the layer whose gap and rank are quoted for the network: the last where samples can have the most directions; null if nothing was measured. */
  quoted_layer: number | null;
  /** What theory says of the whole network. */
  prediction: PredictionSummary;
  /** Number of parameters. */
  parameters: number;
  /** Samples in the batch. */
  samples: number;
  /** What can be trained, and what a first step does; absent in older documents. */
  learning?: Learning;
  /** The loss before training; absent if none was given. */
  initial_loss?: InitialLoss;
  /** What was differentiated; null if nothing could be. */
  gradient_of: string | null;
  /** The batch; theory starts there. */
  input: Layer;
  /** Every module call, in order. */
  layers: Layer[];
  /** Modules that were not seen. */
  unobserved: Omission[];
  /** Every attention; absent if none was seen. */
  attention?: Attention[];
  /** The residual stream; absent if there is none. */
  stream?: StreamPoint[];
  /** Every recurrent layer; absent if there is none. */
  time?: OverTime[];
  /** Every mixture of experts; absent if there is none. */
  experts?: Experts[];
  /** How residual blocks align; absent unless the diagnosis was deep. */
  residual?: ResidualDocument;
  /** What to change, what is kept first; absent unless a fix was tried. */
  prescriptions?: Prescription[];
  /** Several seeds; absent for one. */
  seeds?: Seeds;
  /** Remarks on the measurement. */
  notes: string[];
  /** Time that the diagnosis took. */
  seconds: number;
  /** What the numbers were made with. */
  environment: Environment;
}

/** The verdict before and after a change. */
export interface Verdicts {
  /** Before the change. */
  before: Verdict;
  /** After the change. */
  after: Verdict;
}

/** One number before and after a change. */
export interface NumberPair {
  /** Name of the number. */
  name: string;
  /** Before the change. */
  before: number | null;
  /** After the change. */
  after: number | null;
  /** Its unit. */
  unit: string;
}

/** What was found in only one of two networks. */
export interface ChangedFinding {
  /** Name of the check. */
  check: string;
  /** What the check looks for. */
  symptom: Symptom;
  /** How bad it is. */
  severity: Verdict;
  /** Module where it begins. */
  layer: string | null;
  /** One sentence: what was found. */
  reason: string;
}

/** The class of a module before and after a change; null where it was not there. */
export interface KindPair {
  /** Before the change. */
  before: string | null;
  /** After the change. */
  after: string | null;
}

/** One module call before and after a change; null where it was not there. */
export interface LayerPair {
  /** Name of the module. */
  name: string;
  /** 0 for the first call of this module in the pass. */
  call: number;
  /** Class of the module. */
  kind: KindPair;
  /** Weight layers from the input; null without a weight matrix. */
  depth: number | null;
  /** Index of the layer before the change. */
  before: number | null;
  /** Index of the layer after the change. */
  after: number | null;
}

/** Two diagnoses whole, and what changed between them. */
export interface ComparisonDocument {
  schema: "orthoscope.comparison/2";
  /** Name of the network after the change. */
  name: string;
  /** Both verdicts. */
  verdict: Verdicts;
  /** Whether what was sick or at risk improved and what was healthy stayed so. */
  improved: boolean;
  /** One sentence: what changed. */
  summary: string;
  /** The main numbers of the network. */
  numbers: NumberPair[];
  /** What was found before and is not found any more. */
  vanished: ChangedFinding[];
  /** What is found now and was not before. */
  appeared: ChangedFinding[];
  /** Every module call, in order; what is gone comes last. */
  layers: LayerPair[];
  /** Diagnosis before the change. */
  before: DiagnosisDocument;
  /** Diagnosis after the change. */
  after: DiagnosisDocument;
  /** What the numbers were made with. */
  environment: Environment;
}

/** One training at one learning rate. */
export interface Run {
  /** The learning rate. */
  learning_rate: number;
  /** Mean loss of the last steps; null if it is not finite. */
  final: number | null;
  /** Least loss; null if it is not finite. */
  best: number | null;
  /** Why it ended early; empty if it did not. */
  stopped: string;
  /** Loss of every step; null where it is not finite. */
  losses: (number | null)[];
}

/** A short training at several learning rates, beside guessing and beside a shallow network. */
export interface ConfirmationDocument {
  schema: "orthoscope.confirmation/1";
  /** Name of the network. */
  name: string;
  /** Verdict that is confirmed or refuted. */
  verdict: Verdict;
  /** What became of the training. */
  outcome: string;
  /** Whether the verdict was right; null if training does not decide it. */
  confirmed: boolean | null;
  /** One sentence: the loss, beside the loss of guessing and of the reference. */
  summary: string;
  /** The best over learning rates; null if all diverged. */
  final_loss: number | null;
  /** Loss of the best constant output. */
  guessing_loss: number | null;
  /** Loss of the reference after the same training. */
  reference_loss: number | null;
  /** What the reference is. */
  reference: string;
  /** Where the data came from. */
  source: string;
  /** Steps of every training. */
  steps: number;
  /** One training for each learning rate. */
  runs: Run[];
  /** What the numbers were made with. */
  environment: Environment;
}

/** How a fix ended. */
export type FixOutcome = "fixed" | "improved" | "healthy before" | "trained weights left alone" | "refuted by training" | "nothing helped";

/** Short trainings of the network before and after a fix. */
export interface Confirmations {
  /** Before the fix. */
  before: ConfirmationDocument;
  /** After the fix. */
  after: ConfirmationDocument;
}

/** What was done to a copy of a network, what else was considered, and the network before and after. */
export interface FixDocument {
  schema: "orthoscope.fix/2";
  /** Name of the network. */
  name: string;
  /** How the fix ended. */
  outcome: FixOutcome;
  /** One sentence: what was done and what came of it. */
  sentence: string;
  /** Both verdicts. */
  verdict: Verdicts;
  /** Changes that were made, in order. */
  steps: Prescription[];
  /** All changes that were considered. */
  plan: Prescription[];
  /** Code that makes the changes again; empty if there are none. */
  snippet: string;
  /** The network before and after. */
  comparison: ComparisonDocument;
  /** Short trainings before and after; null if none was made. */
  confirmation: Confirmations | null;
  /** What the numbers were made with. */
  environment: Environment;
}

/** What one check found at one depth. */
export interface DepthFinding {
  /** Name of the check. */
  check: string;
  /** What the check looks for. */
  symptom: Symptom;
  /** How bad it is. */
  severity: Verdict;
  /** One sentence: what was found. */
  reason: string;
}

/** A network of this many hidden layers: what leaves the last of them; null where theory has no number. */
export interface Depth {
  /** Number of hidden layers. */
  depth: number;
  /** Root mean square of the output. */
  rms: number | null;
  /** Mean cosine similarity over pairs of samples. */
  overlap: number | null;
  /** Orthogonality gap. */
  gap: number | null;
  /** Effective rank of the samples. */
  effective_rank: number | null;
  /** Isometry gap. */
  isometry_gap: number | null;
  /** Standard deviation of the cosine of one pair of samples. */
  overlap_deviation: number | null;
  /** Growth of the log of the gradient norm from the output to the input, in e-folds. */
  gradient_growth: number | null;
  /** Verdict on a network of this depth. */
  verdict: Verdict;
  /** What was found; checks that found nothing are left out. */
  findings: DepthFinding[];
}

/** A check that theory has no number for. */
export interface Unchecked {
  /** Name of the check. */
  check: string;
  /** Why it was not checked. */
  reason: string;
}

/** Where a number would end if the network were infinitely deep. */
export interface Limit {
  /** Name of the number. */
  name: string;
  /** The limit; null if there is none. */
  value: number | null;
  /** Its unit. */
  unit: string;
  /** Place in the literature. */
  source: string;
  /** What must hold for it. */
  assumes: string;
}

/** A network that was not built, by depth: numbers that theory gives, and what the rules make of them. */
export interface PredictionDocument {
  schema: "orthoscope.prediction/1";
  /** What was asked for. */
  name: string;
  /** One sentence: how deep it trains, and what ends it. */
  summary: string;
  /** Samples in the batch. */
  samples: number;
  /** Units of a hidden layer. */
  width: number;
  /** Mean cosine over pairs of samples before the first layer. */
  overlap: number | null;
  /** Largest depth up to which every depth is healthy; null if not even the first is. */
  deepest: number | null;
  /** Least depth that is not healthy. */
  at_risk_from: number | null;
  /** Least depth that is sick. */
  sick_from: number | null;
  /** Every depth that was asked for. */
  depths: Depth[];
  /** Checks that theory has no number for. */
  not_checked: Unchecked[];
  /** Numbers of an infinitely deep network. */
  limit: Limit[];
  /** Statements that the prediction rests on. */
  sources: Source[];
  /** Time that it took. */
  seconds: number;
  /** What the numbers were made with. */
  environment: Environment;
}

/** The state of a network after some optimizer steps. */
export interface Snapshot {
  /** Optimizer steps taken before it. */
  step: number;
  /** Until a snapshot is healthy, the verdict of the diagnosis; then by what changed since the first healthy one. */
  verdict: Verdict;
  /** One sentence: what was found, or that nothing was. */
  summary: string;
  /** Numbers for a logger, by name; undefined ones are left out. */
  scalars: Record<string, number>;
  /** Time that the snapshot took. */
  seconds: number;
}

/** The loss of one step. */
export interface StepLoss {
  /** Optimizer steps taken before it. */
  step: number;
  /** The loss, summed over the backward passes of the step; null if it is not finite. */
  loss: number | null;
}

/** What a watch warns of: a number that is not finite, a learning rate, or a network that became worse. */
export interface WatchWarning {
  /** What is wrong: the first three are not finite; the network became worse than at its first healthy snapshot. */
  kind: "loss" | "gradient" | "weights" | "learning rate" | "network";
  /** Optimizer steps taken before it. */
  step: number;
  /** What was found, and what to do. */
  sentence: string;
  /** Module or parameter where it begins; null if it is of the whole network. */
  layer?: string;
  /** The number that is wrong, such as the learning rate. */
  value?: number;
  /** A better one. */
  suggestion?: number;
}

/** What one step of an optimizer did to one matrix, W → W + ΔW; null where undefined or infinite. */
export interface Update {
  /** Step of its optimizer since the watch began. */
  step: number;
  /** Class of the optimizer. */
  optimizer: string;
  /** Name of the parameter, with [i] for the i-th of several matrices. */
  weight: string;
  /** Rows and columns. */
  shape: number[];
  /** Frobenius norm of the gradient that the optimizer saw. */
  gradient_norm: number | null;
  /** Frobenius norm of W before the step. */
  weight_norm: number | null;
  /** Frobenius norm of ΔW. */
  update_norm: number | null;
  /** Frobenius norm of ΔW over that of W. */
  relative_size: number | null;
  /** Spectral norm of ΔW over that of W. */
  relative_spectral_size: number | null;
  /** √(in/out) times the spectral norm of ΔW. */
  rms_operator_norm: number | null;
  /** Singular values of ΔW: largest, upper quartile, median, lower quartile, smallest. */
  spectrum: (number | null)[];
  /** Effective rank of ΔW. */
  effective_rank: number | null;
  /** Stable rank of ΔW. */
  stable_rank: number | null;
  /** 0 if all singular values of ΔW are equal. */
  semi_orthogonality_defect: number | null;
  /** Cosine of ΔW and W. */
  update_alignment: number | null;
  /** Share of the energy of ΔW in the leading tenth of the left singular vectors of W. */
  left_share: number | null;
  /** The same for the right singular vectors. */
  right_share: number | null;
  /** Mean absolute cosine over pairs of rows of W, before the step. */
  independence: number | null;
  /** Its change by the step. */
  independence_change: number | null;
  /** Mean change of the angle of two rows, in radians. */
  angle_change: number | null;
  /** The mean change of angle per relative size of the update. */
  conformality_defect: number | null;
}

/** One network in training: snapshots of it, and what steps of optimizers did to its matrices. */
export interface WatchDocument {
  schema: "orthoscope.watch/4";
  /** Class of the network. */
  name: string;
  /** Optimizer steps between two snapshots. */
  every: number;
  /** Optimizer steps taken. */
  steps: number;
  /** All snapshots. */
  history: Snapshot[];
  /** The last snapshot in full. */
  latest: DiagnosisDocument | null;
  /** Step of the last healthy snapshot; null if there is none. */
  last_healthy_step: number | null;
  /** That snapshot in full; absent if it is the last one. */
  last_healthy?: DiagnosisDocument;
  /** The loss of every step, or of evenly spaced ones of a long training. */
  losses: StepLoss[];
  /** The loss of guessing: of equal probabilities, or of the untrained network. */
  guessing: number | null;
  /** What was wrong, in order. */
  warnings: WatchWarning[];
  /** What recorded steps did to every matrix. */
  rows: Update[];
  /** Parameters whose updates were not recorded. */
  skipped: Omission[];
  /** Snapshots and loggers that failed. */
  problems: string[];
  /** Why training was to stop; null if it was not. */
  stopped: string | null;
  /** What the numbers were made with. */
  environment: Environment;
}

/** What the page can draw. */
export type AnyDocument = ResidualDocument | DiagnosisDocument | ComparisonDocument | ConfirmationDocument | FixDocument | PredictionDocument | WatchDocument;

/** Symptoms in the words of the field. */
export const SYMPTOM_WORDS: Record<Symptom, string> = {"collapse": "rank collapse", "vanish": "vanishing gradients", "explode": "exploding gradients", "degenerate input": "degenerate input", "attention": "broken attention", "routing": "unbalanced experts", "disconnected": "no gradient path", "scale": "unsuitable scale", "loss": "unsuitable loss", "slow": "slow learning"};

/** How a quantity is named, explained, written and drawn. */
export interface Quantity {
  key: string;
  group: "layer" | "network" | "depth" | "block" | "update" | "snapshot" | "step" | "attention" | "time" | "experts";
  label: string;
  short: string;
  symbol: string;
  unit: string;
  explanation: string;
  definition: string;
  written: "fixed" | "signed" | "scientific" | "factor" | "rank";
  decimals: number;
  axis: "unit" | "share" | "log" | "linear";
  is_main: boolean;
  anchor: string;
  place: "layer" | "sample_view" | "picture" | "";
  is_predicted: boolean;
}

export const QUANTITIES: readonly Quantity[] = [
  {"key": "gap", "group": "layer", "label": "orthogonality gap", "short": "gap", "symbol": "V", "unit": "", "explanation": "How far the samples of the batch are from orthogonal and of equal length: 0 if they are, near 1 if all point in one direction and the network cannot tell them apart.", "definition": "‖HHᵀ/‖H‖² − I/n‖ in Frobenius norms; the n samples of a layer are the rows of H", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": true, "anchor": "orthogonality-gap", "place": "sample_view", "is_predicted": true},
  {"key": "effective_rank", "group": "layer", "label": "effective rank", "short": "rank", "symbol": "erank", "unit": "", "explanation": "How many directions the samples of the batch use: at most the number of samples or units, 1 after rank collapse.", "definition": "exponential of the entropy of the singular values of H, as shares of their sum", "written": "rank", "decimals": 2, "axis": "share", "is_main": true, "anchor": "effective-rank", "place": "sample_view", "is_predicted": true},
  {"key": "overlap", "group": "layer", "label": "mean overlap", "short": "cos", "symbol": "c", "unit": "", "explanation": "Mean cosine similarity of two samples: 0 if they are orthogonal, 1 if they are parallel.", "definition": "mean of cos(hᵢ, hⱼ) over pairs of samples i ≠ j", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": true, "anchor": "mean-overlap", "place": "sample_view", "is_predicted": true},
  {"key": "rms", "group": "layer", "label": "RMS of the output", "short": "rms", "symbol": "", "unit": "", "explanation": "Root mean square of the output: it should stay near the same size in all layers.", "definition": "", "written": "scientific", "decimals": 2, "axis": "log", "is_main": true, "anchor": "rms-of-the-output", "place": "layer", "is_predicted": true},
  {"key": "gradient_norm", "group": "layer", "label": "gradient norm", "short": "|grad|", "symbol": "‖∂L/∂h‖", "unit": "", "explanation": "Norm of the gradient of the loss with respect to the output of the layer: growth toward the input is an exploding gradient, decay a vanishing one.", "definition": "", "written": "scientific", "decimals": 2, "axis": "log", "is_main": true, "anchor": "gradient-norm", "place": "layer", "is_predicted": true},
  {"key": "isometry_gap", "group": "layer", "label": "isometry gap", "short": "isometry", "symbol": "ψ", "unit": "", "explanation": "Log-ratio of the arithmetic to the geometric mean of the squared singular values of the samples: 0 if the samples are orthogonal and of equal length, infinite if they are linearly dependent.", "definition": "", "written": "scientific", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "isometry-gap", "place": "sample_view", "is_predicted": true},
  {"key": "centered_rank", "group": "layer", "label": "effective rank around the mean", "short": "", "symbol": "", "unit": "", "explanation": "How many directions the differences of the samples use: low if only the mean of the batch is left.", "definition": "effective rank of H after the mean of its rows is subtracted", "written": "rank", "decimals": 2, "axis": "share", "is_main": false, "anchor": "effective-rank-around-the-mean", "place": "picture", "is_predicted": false},
  {"key": "stable_rank", "group": "layer", "label": "stable rank", "short": "", "symbol": "‖H‖²/σ₁²", "unit": "", "explanation": "Squared Frobenius norm over squared spectral norm: a rank that small singular values hardly change.", "definition": "", "written": "rank", "decimals": 2, "axis": "share", "is_main": false, "anchor": "stable-rank", "place": "sample_view", "is_predicted": false},
  {"key": "numerical_rank", "group": "layer", "label": "numerical rank", "short": "", "symbol": "", "unit": "", "explanation": "Number of singular values of the samples above rounding: less than possible if samples are linearly dependent.", "definition": "", "written": "rank", "decimals": 2, "axis": "share", "is_main": false, "anchor": "numerical-rank", "place": "sample_view", "is_predicted": false},
  {"key": "mean_energy", "group": "layer", "label": "energy of the mean", "short": "", "symbol": "", "unit": "", "explanation": "Share of the energy that is in the mean of the batch: 1 if all samples are equal.", "definition": "squared norm of the batch mean over the mean squared norm of the samples", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "energy-of-the-mean", "place": "sample_view", "is_predicted": false},
  {"key": "length_spread", "group": "layer", "label": "spread of lengths", "short": "", "symbol": "s/‖h‖", "unit": "", "explanation": "How much the lengths of the samples differ: 0 if all are equally long; if it is large, a few long samples alone can make the orthogonality gap large.", "definition": "standard deviation of ‖hᵢ‖ over the samples, divided by their mean", "written": "fixed", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "spread-of-lengths", "place": "sample_view", "is_predicted": false},
  {"key": "weight_gradient_norm", "group": "layer", "label": "weight gradient norm", "short": "", "symbol": "‖∂L/∂W‖", "unit": "", "explanation": "Norm of the gradient of the loss with respect to the weight of the layer: what the optimizer sees.", "definition": "", "written": "scientific", "decimals": 2, "axis": "log", "is_main": false, "anchor": "weight-gradient-norm", "place": "layer", "is_predicted": false},
  {"key": "risk", "group": "network", "label": "risk of not training", "short": "", "symbol": "p", "unit": "", "explanation": "Calibrated probability that a network with these numbers does not train: 0 is safe, 1 hopeless.", "definition": "the worst of three logistic laws: in effective rank, gradient growth and gradient decay", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "risk-of-not-training", "place": "", "is_predicted": false},
  {"key": "slope", "group": "network", "label": "gradient growth per weight layer", "short": "", "symbol": "", "unit": "e-folds", "explanation": "Factor by which the gradient norm changes per weight layer toward the input: 1 is ideal, above 1 explodes, below 1 vanishes.", "definition": "exponential of the slope of the log gradient norm over weight layers, fitted by least squares; documents hold the logarithm", "written": "factor", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "gradient-growth-per-weight-layer", "place": "", "is_predicted": false},
  {"key": "gradient_growth", "group": "depth", "label": "gradient growth", "short": "", "symbol": "", "unit": "e-folds", "explanation": "Factor by which the gradient norm changes from the output to the input: 1 is ideal, far above 1 explodes, far below vanishes.", "definition": "growth per weight layer to the power of the number of weight layers minus one, from the fitted line; documents hold the logarithm", "written": "factor", "decimals": 2, "axis": "linear", "is_main": true, "anchor": "gradient-growth", "place": "", "is_predicted": false},
  {"key": "overlap_deviation", "group": "depth", "label": "deviation of the overlap", "short": "", "symbol": "sd(c)", "unit": "", "explanation": "Standard deviation of the cosine similarity of one pair of samples over random weights.", "definition": "", "written": "fixed", "decimals": 3, "axis": "unit", "is_main": false, "anchor": "deviation-of-the-overlap", "place": "", "is_predicted": false},
  {"key": "sigma1", "group": "block", "label": "largest singular value", "short": "", "symbol": "σ₁", "unit": "", "explanation": "Largest singular value of the Jacobian of the residual branch: how much the block can stretch.", "definition": "", "written": "scientific", "decimals": 3, "axis": "log", "is_main": true, "anchor": "largest-singular-value", "place": "", "is_predicted": false},
  {"key": "misalignment", "group": "block", "label": "misalignment", "short": "", "symbol": "", "unit": "", "explanation": "How little the singular vectors of a block agree with those of the other blocks: 0 if they are shared, 1 if they are unrelated.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": true, "anchor": "misalignment", "place": "", "is_predicted": false},
  {"key": "rank_ratio", "group": "block", "label": "rank ratio", "short": "", "symbol": "σₖ₊₁/σ₁", "unit": "", "explanation": "First singular value past the number of classes over the largest: 0 if the Jacobian has no more directions than there are classes.", "definition": "", "written": "fixed", "decimals": 3, "axis": "unit", "is_main": false, "anchor": "rank-ratio", "place": "", "is_predicted": false},
  {"key": "top_energy", "group": "block", "label": "energy of the top directions", "short": "", "symbol": "", "unit": "", "explanation": "Share of the energy of the Jacobian in as many directions as there are classes: 1 if it has no others.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": true, "anchor": "energy-of-the-top-directions", "place": "", "is_predicted": false},
  {"key": "step", "group": "block", "label": "length of the step", "short": "", "symbol": "‖Δh‖", "unit": "", "explanation": "Length of what the block adds to the residual stream: equal lengths make a straight, even path.", "definition": "", "written": "scientific", "decimals": 2, "axis": "log", "is_main": true, "anchor": "length-of-the-step", "place": "", "is_predicted": false},
  {"key": "relative_size", "group": "update", "label": "relative size of the update", "short": "|ΔW|/|W|", "symbol": "‖ΔW‖/‖W‖", "unit": "", "explanation": "Frobenius norm of the update over that of the weight: near 1e-3 in usual training, above 0.1 the step replaces most of the weight.", "definition": "", "written": "scientific", "decimals": 3, "axis": "log", "is_main": true, "anchor": "relative-size-of-the-update", "place": "", "is_predicted": false},
  {"key": "effective_rank", "group": "update", "label": "effective rank of the update", "short": "rank", "symbol": "", "unit": "", "explanation": "How many directions the update uses: low if the optimizer follows a few of them.", "definition": "", "written": "rank", "decimals": 2, "axis": "share", "is_main": false, "anchor": "effective-rank-of-the-update", "place": "", "is_predicted": false},
  {"key": "semi_orthogonality_defect", "group": "update", "label": "unevenness of the update", "short": "uneven", "symbol": "", "unit": "", "explanation": "How unequal the singular values of the update are: 0 if all are equal, as after a step of Muon.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "unevenness-of-the-update", "place": "", "is_predicted": false},
  {"key": "angle_change", "group": "update", "label": "mean change of the angle of two rows", "short": "Δangle", "symbol": "", "unit": "radians", "explanation": "Mean change of the angle between two rows of the weight: 0 if the step only rotates them together.", "definition": "", "written": "scientific", "decimals": 4, "axis": "linear", "is_main": false, "anchor": "mean-change-of-the-angle-of-two-rows", "place": "", "is_predicted": false},
  {"key": "independence", "group": "update", "label": "mean absolute cosine of two rows", "short": "PII", "symbol": "", "unit": "", "explanation": "Mean absolute cosine of two rows of the weight, before the step: 0 if they are orthogonal.", "definition": "", "written": "fixed", "decimals": 3, "axis": "unit", "is_main": false, "anchor": "mean-absolute-cosine-of-two-rows", "place": "", "is_predicted": false},
  {"key": "independence_change", "group": "update", "label": "change of that cosine", "short": "ΔPII", "symbol": "", "unit": "", "explanation": "What the step adds to the mean absolute cosine of two rows: positive if they become more alike.", "definition": "", "written": "signed", "decimals": 4, "axis": "linear", "is_main": false, "anchor": "change-of-that-cosine", "place": "", "is_predicted": false},
  {"key": "rms_operator_norm", "group": "update", "label": "RMS operator norm of the update", "short": "rms→rms", "symbol": "√(in/out) ‖ΔW‖₂", "unit": "", "explanation": "By how much the update can change the RMS of the output for inputs of RMS 1.", "definition": "", "written": "scientific", "decimals": 3, "axis": "log", "is_main": false, "anchor": "rms-operator-norm-of-the-update", "place": "", "is_predicted": false},
  {"key": "update_alignment", "group": "update", "label": "cosine of update and weight", "short": "cos", "symbol": "", "unit": "", "explanation": "Cosine of the update and the weight: negative if the step shrinks the weight.", "definition": "", "written": "fixed", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "cosine-of-update-and-weight", "place": "", "is_predicted": false},
  {"key": "gradient_norm", "group": "update", "label": "gradient norm", "short": "|grad|", "symbol": "", "unit": "", "explanation": "Frobenius norm of the gradient that the optimizer saw.", "definition": "", "written": "scientific", "decimals": 2, "axis": "log", "is_main": false, "anchor": "gradient-norm", "place": "", "is_predicted": false},
  {"key": "worst_gap", "group": "snapshot", "label": "worst orthogonality gap", "short": "worst gap", "symbol": "", "unit": "", "explanation": "Largest orthogonality gap of the layers that allow at least 21 directions, or else the most: near 1 if samples collapse there.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": true, "anchor": "worst-orthogonality-gap", "place": "", "is_predicted": false},
  {"key": "min_effective_rank", "group": "snapshot", "label": "least effective rank", "short": "least rank", "symbol": "", "unit": "", "explanation": "Least effective rank of the layers that allow at least 21 directions, or else the most: 1 after rank collapse.", "definition": "", "written": "rank", "decimals": 2, "axis": "linear", "is_main": true, "anchor": "least-effective-rank", "place": "", "is_predicted": false},
  {"key": "mean_overlap", "group": "snapshot", "label": "mean overlap at the end", "short": "cos", "symbol": "", "unit": "", "explanation": "Mean cosine similarity of two samples at the last layer that allows at least 21 directions, or else the most.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": true, "anchor": "mean-overlap-at-the-end", "place": "", "is_predicted": false},
  {"key": "gradient_slope", "group": "snapshot", "label": "gradient growth per weight layer", "short": "growth/layer", "symbol": "", "unit": "e-folds", "explanation": "Factor by which the gradient norm changes per weight layer toward the input: 1 is ideal.", "definition": "", "written": "factor", "decimals": 2, "axis": "linear", "is_main": true, "anchor": "gradient-growth-per-weight-layer", "place": "", "is_predicted": false},
  {"key": "risk", "group": "snapshot", "label": "risk of not training", "short": "risk", "symbol": "p", "unit": "", "explanation": "Calibrated probability that a network with these numbers does not train.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "risk-of-not-training", "place": "", "is_predicted": false},
  {"key": "record_seconds", "group": "snapshot", "label": "time of the snapshot", "short": "seconds", "symbol": "", "unit": "s", "explanation": "Time that the snapshot took.", "definition": "", "written": "scientific", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "time-of-the-snapshot", "place": "", "is_predicted": false},
  {"key": "loss", "group": "step", "label": "loss of the step", "short": "loss", "symbol": "L", "unit": "", "explanation": "The scalar at which the backward passes of a step start, summed over them: it should fall below that of guessing, and stay there.", "definition": "", "written": "scientific", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "loss-of-the-step", "place": "", "is_predicted": false},
  {"key": "largest_logit", "group": "attention", "label": "largest attention logit", "short": "logit", "symbol": "", "unit": "", "explanation": "Largest product of a query and a key, scaled, that the mask allows: a few for a network at initialization; beyond a hundred, one key gets all the weight.", "definition": "", "written": "scientific", "decimals": 2, "axis": "log", "is_main": false, "anchor": "largest-attention-logit", "place": "", "is_predicted": false},
  {"key": "entropy", "group": "attention", "label": "entropy of attention", "short": "entropy", "symbol": "", "unit": "", "explanation": "Mean entropy of the weights of a query, as a share of that of uniform weights: 1 if all keys get as much, 0 if one key gets all.", "definition": "−Σ p ln p / ln n over the n ≥ 2 keys that a query may see, averaged over a few queries", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "entropy-of-attention", "place": "", "is_predicted": false},
  {"key": "one_hot_heads", "group": "attention", "label": "one-hot heads", "short": "one-hot", "symbol": "", "unit": "", "explanation": "Share of heads whose entropy is below 10 % of uniform: one key gets nearly all the weight, and queries and keys get hardly any gradient.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "one-hot-heads", "place": "", "is_predicted": false},
  {"key": "uniform_heads", "group": "attention", "label": "uniform heads", "short": "uniform", "symbol": "", "unit": "", "explanation": "Share of heads whose entropy is above 99 % of uniform: usual at initialization.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "uniform-heads", "place": "", "is_predicted": false},
  {"key": "lonely_queries", "group": "attention", "label": "queries without a choice", "short": "lonely", "symbol": "", "unit": "", "explanation": "Share of queries for which the mask leaves one key or none, besides the first of a causal mask.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "queries-without-a-choice", "place": "", "is_predicted": false},
  {"key": "growth", "group": "time", "label": "gradient growth over time", "short": "growth", "symbol": "", "unit": "e-folds", "explanation": "Factor by which the gradient norm changes from the last time step to the first: above 1 it explodes, far below 1 early steps are not learned from.", "definition": "gradient with respect to the input of the layer (of a cell: its states), step by step; documents hold the logarithm", "written": "factor", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "gradient-growth-over-time", "place": "", "is_predicted": false},
  {"key": "reach", "group": "time", "label": "steps that the gradient reaches", "short": "reach", "symbol": "", "unit": "", "explanation": "How many steps back the gradient is at least a thousandth of its largest.", "definition": "", "written": "rank", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "steps-that-the-gradient-reaches", "place": "", "is_predicted": false},
  {"key": "saturation", "group": "time", "label": "saturated gates and states", "short": "saturated", "symbol": "", "unit": "", "explanation": "Share of gates and states within 3 % of their bounds, where they pass no gradient.", "definition": "", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "saturated-gates-and-states", "place": "", "is_predicted": false},
  {"key": "effective", "group": "experts", "label": "effective number of experts", "short": "experts", "symbol": "", "unit": "", "explanation": "How many experts share the tokens: all if the load is even, as many as a token goes to if the router has collapsed.", "definition": "exponential of the entropy of the load", "written": "rank", "decimals": 2, "axis": "linear", "is_main": false, "anchor": "effective-number-of-experts", "place": "", "is_predicted": false},
  {"key": "balance", "group": "experts", "label": "balance of the router", "short": "balance", "symbol": "", "unit": "", "explanation": "0 if all tokens go to the same experts, 1 if all experts get as many.", "definition": "(effective number − experts a token goes to)/(experts − experts a token goes to)", "written": "fixed", "decimals": 2, "axis": "unit", "is_main": false, "anchor": "balance-of-the-router", "place": "", "is_predicted": false},
];
