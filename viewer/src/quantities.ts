// Every quantity of a page, said once: its label, its formula, and what it tells in one sentence.

export interface Quantity {
  key: string;
  label: string;
  symbol: string;
  explanation: string;
  format: "fixed" | "number" | "rank" | "factor" | "percent";
}

export const QUANTITIES: readonly Quantity[] = [
  {
    key: "gap",
    label: "orthogonality gap",
    symbol: "‖HHᵀ/‖H‖² − I/n‖ in Frobenius norms; the n samples of a layer are the rows of H",
    explanation: "How far the samples are from being mutually orthogonal: 0 if all are orthogonal, close to 1 if all point in one direction.",
    format: "fixed",
  },
  {
    key: "effective_rank",
    label: "effective rank",
    symbol: "exponential of the entropy of the singular values of H, as shares of their sum",
    explanation: "How many directions the samples really use: 1 after rank collapse, at most the smaller of samples and units.",
    format: "rank",
  },
  {
    key: "centered_rank",
    label: "effective rank around the mean",
    symbol: "effective rank of H after the batch mean is subtracted",
    explanation: "How many directions are left in which samples differ from each other.",
    format: "rank",
  },
  {
    key: "overlap",
    label: "overlap",
    symbol: "mean of cos(hᵢ, hⱼ) over pairs of samples i ≠ j",
    explanation: "Mean cosine similarity of two samples: 0 if they are orthogonal, 1 if all samples point in one direction.",
    format: "fixed",
  },
  {
    key: "isometry_gap",
    label: "isometry gap",
    symbol: "log of the arithmetic over the geometric mean of the squared singular values of H",
    explanation: "How unevenly the samples fill their directions: 0 if they are orthogonal and equally long, infinite if one is a combination of others.",
    format: "number",
  },
  {
    key: "mean_energy",
    label: "share of the mean",
    symbol: "squared norm of the batch mean over the mean squared norm of the samples",
    explanation: "How much of the samples is common to all of them: 1 if all samples are equal.",
    format: "fixed",
  },
  {
    key: "rms",
    label: "rms",
    symbol: "root mean square over all entries of a layer's output",
    explanation: "Typical size of one entry of a layer's output; growth or decay over depth means exploding or vanishing activations.",
    format: "number",
  },
  {
    key: "gradient_norm",
    label: "gradient norm",
    symbol: "norm of the gradient with respect to a layer's output",
    explanation: "Size of the gradient that reaches a layer on the way back from the output.",
    format: "number",
  },
  {
    key: "weight_gradient_norm",
    label: "weight gradient norm",
    symbol: "norm of the gradient with respect to a layer's weight",
    explanation: "Size of the gradient by which an optimizer would change this layer's weight.",
    format: "number",
  },
  {
    key: "slope",
    label: "gradient growth",
    symbol: "exponential of the least-squares slope of the log gradient norm over weight layers, toward the input",
    explanation: "Factor by which the gradient changes on its way back from the output to the input: ×1 is ideal, far above it gradients explode, far below they vanish.",
    format: "factor",
  },
  {
    key: "token_rank",
    label: "effective rank of tokens",
    symbol: "effective rank of the tokens of one sequence, averaged over sequences",
    explanation: "How many directions the tokens within a sequence use: 1 if attention has made all tokens alike.",
    format: "rank",
  },
  {
    key: "risk",
    label: "risk of not training",
    symbol: "the worst of three logistic laws in effective rank, gradient growth and gradient decay",
    explanation: "Estimated probability that training fails, calibrated on networks that were diagnosed and then trained.",
    format: "percent",
  },
];

export function quantity(key: string): Quantity {
  const found = QUANTITIES.find((one) => one.key === key);
  if (!found) throw new Error(`no quantity ${key}`);
  return found;
}
