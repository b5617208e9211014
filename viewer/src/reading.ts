// What every part of the page reads off a document; the same rules as report/reading.py and report/wording.py.
import type { Diagnosis, Finding, Layer, View } from "./documents";

const RANKS: Record<string, number> = { HEALTHY: 0, "AT RISK": 1, SICK: 2 };
export const UNDEFINED = "–";

export type MetricName = "gap" | "rank" | "overlap" | "rms" | "gradient";

export interface Metric {
  name: MetricName;
  title: string;
  quantity: string; // its key in the table of quantities
  logarithmic: boolean;
  measured: (layer: Layer) => number | null;
  predicted: (layer: Layer) => number | null;
}

export const METRICS: Metric[] = [
  {
    name: "gap",
    title: "Orthogonality gap",
    quantity: "gap",
    logarithmic: false,
    measured: (layer) => view(layer, "gap"),
    predicted: (layer) => layer.predicted?.gap ?? null,
  },
  {
    name: "rank",
    title: "Effective rank, share of the possible",
    quantity: "effective_rank",
    logarithmic: false,
    measured: (layer) => share(view(layer, "effective_rank"), possibleRank(layer)),
    predicted: (layer) => share(layer.predicted?.effective_rank ?? null, possibleRank(layer)),
  },
  {
    name: "overlap",
    title: "Overlap: mean cosine of pairs",
    quantity: "overlap",
    logarithmic: false,
    measured: (layer) => view(layer, "overlap"),
    predicted: (layer) => layer.predicted?.overlap ?? null,
  },
  {
    name: "rms",
    title: "RMS of the output",
    quantity: "rms",
    logarithmic: true,
    measured: (layer) => layer.rms,
    predicted: (layer) => layer.predicted?.rms ?? null,
  },
  {
    name: "gradient",
    title: "Gradient norm",
    quantity: "gradient_norm",
    logarithmic: true,
    measured: (layer) => layer.gradient_norm,
    predicted: (layer) => layer.predicted?.gradient_norm ?? null,
  },
];

export function view(layer: Layer, name: keyof View): number | null {
  return layer.sample_view === null ? null : layer.sample_view[name];
}

export function possibleRank(layer: Layer): number {
  return Math.min(layer.samples, layer.units);
}

export function share(value: number | null, possible: number): number | null {
  return value === null || possible < 1 ? null : value / possible;
}

export function findings(document: Diagnosis, state: string): Finding[] {
  const chosen = document.findings.filter((finding) => finding.state === state);
  return chosen.sort((a, b) => (RANKS[b.severity] ?? 0) - (RANKS[a.severity] ?? 0));
}

/** Layers that findings name: index to the symptoms that begin there, the worst finding first. */
export function marks(document: Diagnosis): Map<number, string[]> {
  const place = new Map<string, number>();
  document.layers.forEach((layer, index) => {
    if (!place.has(layer.name)) place.set(layer.name, index);
  });
  const begins = new Map<number, string[]>();
  for (const finding of findings(document, "found")) {
    const index = finding.layer === null ? undefined : place.get(finding.layer);
    if (index === undefined) continue;
    const known = begins.get(index) ?? [];
    if (!known.includes(finding.symptom)) known.push(finding.symptom);
    begins.set(index, known);
  }
  return begins;
}

export function firstSick(document: Diagnosis): number | null {
  return marks(document).keys().next().value ?? null;
}

/** The last layer wide enough for the batch, or the widest: the one whose gap the document gives. */
export function lastTelling(document: Diagnosis): Layer | null {
  const measured = document.layers.filter((layer) => layer.sample_view !== null);
  const room = (layer: Layer) => Math.min(layer.samples - 1, layer.units);
  const widest = Math.max(...measured.map(room));
  return measured.filter((layer) => room(layer) === widest).pop() ?? null;
}

export function layerName(layer: Layer): string {
  const name = printable(layer.name) || "(model)";
  return layer.call ? `${name} (call ${layer.call + 1})` : name;
}

/** Control characters and those that turn the direction of text replaced: https://trojansource.codes */
export function printable(text: unknown): string {
  return String(text)
    .replace(/\n/g, " ")
    .replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function look(verdict: string): "healthy" | "at-risk" | "sick" {
  return verdict === "HEALTHY" ? "healthy" : verdict === "AT RISK" ? "at-risk" : "sick";
}

/** Fixed point for numbers of everyday size, 1.2×10⁻⁹ for others, a dash for undefined ones. */
export function number(value: number | null | undefined, decimals = 2): string {
  if (value === null || value === undefined) return UNDEFINED;
  const size = Math.abs(value);
  if (value !== 0 && !(size >= 10 ** -decimals && size < 10_000)) {
    const [digits, exponent] = value.toExponential(1).split("e");
    return `${digits}×${tenToThe(Number(exponent))}`;
  }
  const text = size < 100 ? value.toFixed(decimals) : value.toFixed(0);
  return /^-0\.?0*$/.test(text) ? text.slice(1) : text;
}

export function fixed(value: number | null | undefined, decimals = 2): string {
  if (value === null || value === undefined) return UNDEFINED;
  const text = value.toFixed(decimals);
  return /^-0\.?0*$/.test(text) ? text.slice(1) : text;
}

export function significant(value: number | null): string {
  return value === null ? UNDEFINED : String(Number(value.toPrecision(3)));
}

export function signed(value: number | null, decimals = 3): string {
  return `${value !== null && value > 0 ? "+" : ""}${fixed(value, decimals)}`;
}

export function rank(value: number | null): string {
  return value === null ? UNDEFINED : value < 10 ? value.toFixed(1) : value.toFixed(0);
}

export function count(value: number): string {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]] as const) {
    if (value >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(value);
}

/** 10⁻¹². */
export function tenToThe(exponent: number): string {
  return `10${[...String(exponent)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("")}`;
}

/** The factor of which the natural logarithm is given: ×1.22, ×20,000, ×10⁻¹². */
export function factor(log: number | null | undefined, digits = 3): string {
  return log === null || log === undefined ? UNDEFINED : `×${factorDigits(log, digits)}`;
}

function factorDigits(log: number, digits = 3): string {
  const value = Math.exp(log);
  if (!(value >= 1e-3 && value < 1e6)) return tenToThe(Math.round(log / Math.LN10));
  if (Math.abs(value - 1) < 0.1) return value.toFixed(digits);
  return Number(value.toPrecision(value < 10 ? digits : 2)).toLocaleString("en-US", { maximumSignificantDigits: 3 });
}

/** ×1.22 (1.20 to 1.24): growth of the gradient per weight layer, with one standard error on both sides. */
export function slope({ slope: { value, standard_error: error } }: Diagnosis): string {
  if (value === null) return "not measured";
  return error === null ? factor(value) : `${factor(value)} (${factorDigits(value - error)} to ${factorDigits(value + error)})`;
}

/** The logarithm by which the gradient grows from the last weight layer to the first, along the fitted line. */
export function growth({ slope: { value, layers } }: Diagnosis): number | null {
  return value === null ? null : value * Math.max(0, layers - 1);
}

const LEVEL = Math.log(2); // a smaller growth over a whole network is none

/** What the gradient does from the output to the input, in words. */
export function growthSentence(document: Diagnosis): string {
  const whole = growth(document);
  if (whole === null) return "How the gradient changes over depth was not measured.";
  const verb = Math.abs(whole) < LEVEL ? "change only" : whole > 0 ? "grow" : "shrink to";
  return `Gradients ${verb} ${factor(whole, 2)} from the output to the input: ${slope(document)} per weight layer, over ${document.slope.layers} of them.`;
}

export function shortened(text: string, length: number): string {
  if (text.length <= length) return text;
  const head = Math.floor(length / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - head - 1))}`;
}

/** How the value of a strip or profile reads. */
export function reads(metric: Metric, layer: Layer): string {
  const value = metric.measured(layer);
  if (metric.name === "rank") return `${rank(view(layer, "effective_rank"))} of ${possibleRank(layer)}`;
  return metric.logarithmic ? number(value) : fixed(value);
}
