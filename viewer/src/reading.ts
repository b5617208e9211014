// What every part of the page reads off a document, and how numbers are written: the rules of report/wording.py.
import type { Diagnosis, Expected, Finding, Layer, View } from "./documents";
import { QUANTITIES, type Quantity, SYMPTOM_WORDS } from "./types";

const RANKS: Record<string, number> = { HEALTHY: 0, UNKNOWN: 1, "AT RISK": 2, SICK: 3 };
export const UNDEFINED = "–";

/** A quantity of a layer, with what it takes to draw it. */
export interface Metric extends Quantity {
  title: string;
  logarithmic: boolean;
  measured: (layer: Layer) => number | null; // as it is drawn: a rank as its share of the possible
  predicted: (layer: Layer) => number | null;
}

/** Every quantity of a layer, in the order of the generated table. */
export const METRICS: Metric[] = QUANTITIES.filter((quantity) => quantity.group === "layer").map(metric);
/** Those with a row in the overview of layers and a profile of their own. */
export const MAIN_METRICS = METRICS.filter((one) => one.is_main);

function metric(quantity: Quantity): Metric {
  const drawn = (value: number | null, layer: Layer) => (quantity.axis === "share" ? share(value, possible(quantity, layer)) : value);
  const name = quantity.label[0].toUpperCase() + quantity.label.slice(1);
  return {
    ...quantity,
    title: quantity.axis === "share" ? `${name}, share of the possible` : name,
    logarithmic: quantity.axis === "log",
    measured: (layer) => drawn(stored(quantity, layer), layer),
    predicted: (layer) => drawn(expected(quantity, layer), layer),
  };
}

/** The number of a quantity, from the part of the layer that holds it. */
export function stored(quantity: Quantity, layer: Layer): number | null {
  const part = quantity.place === "layer" ? layer : quantity.place === "picture" ? layer.picture : layer.sample_view;
  return (part as Record<string, number | null> | null | undefined)?.[quantity.key] ?? null;
}

/** The same number as theory has it. */
function expected(quantity: Quantity, layer: Layer): number | null {
  return quantity.is_predicted ? (layer.predicted?.[quantity.key as keyof Expected] ?? null) : null;
}

/** Largest rank that is possible; centering takes one sample. */
function possible(quantity: Quantity, layer: Layer): number {
  return quantity.place === "picture" ? Math.min(layer.samples - 1, layer.units) : possibleRank(layer);
}

export function view(layer: Layer, name: keyof View): number | null {
  return layer.sample_view === null ? null : layer.sample_view[name] ?? null;
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

/** Where symptoms begin: index of a layer to symptoms, each once, at the layer of its worst finding. */
export function marks(document: Diagnosis): Map<number, string[]> {
  const place = new Map<string, number>();
  document.layers.forEach((layer, index) => {
    if (!place.has(layer.name)) place.set(layer.name, index);
  });
  const begins = new Map<number, string[]>();
  for (const finding of findings(document, "found")) {
    const index = finding.layer === null ? undefined : place.get(finding.layer);
    if (index === undefined || [...begins.values()].some((symptoms) => symptoms.includes(finding.symptom))) continue;
    begins.set(index, [...(begins.get(index) ?? []), finding.symptom]);
  }
  return begins;
}

/** A symptom in the words of the field. */
export function symptomWords(symptom: string): string {
  return (SYMPTOM_WORDS as Record<string, string>)[symptom] ?? printable(symptom);
}

export function firstSick(document: Diagnosis): number | null {
  return marks(document).keys().next().value ?? null;
}

/** The layer whose gap and rank are quoted for the network. */
export function quotedLayer(document: Diagnosis): Layer | null {
  return document.quoted_layer === null ? null : document.layers[document.quoted_layer];
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

export type Look = "healthy" | "unknown" | "at-risk" | "sick";

export function look(verdict: string): Look {
  const looks: Record<string, Look> = { HEALTHY: "healthy", UNKNOWN: "unknown", "AT RISK": "at-risk" };
  return looks[verdict] ?? "sick";
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

/** A number whose sign is half of what it says: +0.002. */
function signed(value: number | null, decimals: number): string {
  return `${value !== null && value > 0 ? "+" : ""}${fixed(value, decimals)}`;
}

export function significant(value: number | null): string {
  return value === null ? UNDEFINED : String(Number(value.toPrecision(3)));
}

/** 4.34 %: a share in percent. */
function percent(share: number | null): string {
  return share === null ? UNDEFINED : `${significant(100 * share)} %`;
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
  return `10${[...BigInt(exponent).toString()].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("")}`;
}

/** The factor of which the natural logarithm is given: ×1.05, ×1.2, ×20,000, ×10⁻¹². */
export function factor(log: number | null | undefined): string {
  return log === null || log === undefined ? UNDEFINED : `×${factorDigits(log)}`;
}

/** Two significant digits from 10⁻³ to 10⁶, three near 1; powers of ten outside. tests/report/factors.json has cases. */
function factorDigits(log: number): string {
  const power = log / Math.LN10;
  if (power < -3 || power > 6) return tenToThe(Math.round(power));
  const value = Math.exp(log);
  const text = value.toPrecision(Math.abs(value - 1) < 0.1 ? 3 : 2);
  return Number(text) < 100 ? text : Number(text).toLocaleString("en-US");
}

/** `1.20 to 1.24`: one standard error to both sides; null where both ends read alike. */
export function interval(log: number | null, error: number | null): string | null {
  if (log === null || error === null) return null;
  const [low, high] = [factorDigits(log - error), factorDigits(log + error)];
  return low === high ? null : `${low} to ${high}`;
}

/** ×1.05 (± 1 s.e.: 1.03 to 1.07): growth of the gradient per weight layer, with one standard error on both sides. */
export function slope({ slope: { value, standard_error: error } }: Diagnosis): string {
  if (value === null) return "not measured";
  const around = interval(value, error);
  return around === null ? factor(value) : `${factor(value)} (± 1 s.e.: ${around})`;
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
  const verb = Math.abs(whole) < LEVEL ? "change little" : whole > 0 ? "grow" : "shrink";
  return `Gradients ${verb} from the output to the input: ${factor(whole)} along the line fitted to ${document.slope.layers} weight layers, ${slope(document)} for each.`;
}

export function shortened(text: string, length: number): string {
  if (text.length <= length) return text;
  const head = Math.floor(length / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - head - 1))}`;
}

/** How a number of a quantity is written, as its row of the table says; a rank beside the possible one. */
export function written(quantity: Quantity, value: number | null, largest: number | null = null): string {
  switch (quantity.written) {
    case "rank":
      return value === null || largest === null ? rank(value) : `${rank(value)} of ${largest}`;
    case "factor":
      return factor(value);
    case "signed":
      return signed(value, quantity.decimals);
    case "fixed":
      return fixed(value, quantity.decimals);
    case "scientific":
      return number(value, quantity.decimals);
  }
}

/** How what was measured of a layer reads. */
export function reads(quantity: Quantity, layer: Layer): string {
  if (quantity.key === "isometry_gap" && layer.rank_deficient) return "infinite: linearly dependent samples";
  return written(quantity, stored(quantity, layer), possible(quantity, layer));
}

/** How what theory expects of a layer reads. */
export function expects(quantity: Quantity, layer: Layer): string {
  return written(quantity, expected(quantity, layer), possible(quantity, layer));
}

const E_FOLDS = /^e-folds,? ?/; // the unit of a natural logarithm: no reader is shown one
const SHARE = /^share /;

/** A number that the document names with a unit of its own, not by a row of the table. */
export function measure(value: number | null, unit: string | null): string {
  if (isLogarithm(unit)) return factor(value);
  return SHARE.test(unit ?? "") ? percent(value) : significant(value);
}

export function isLogarithm(unit: string | null): boolean {
  return E_FOLDS.test(unit ?? "");
}

/** What is written beside such a number: a factor has no unit but may say from where to where, and a share says of what. */
export function unitWords(unit: string): string {
  return printable(unit.replace(E_FOLDS, "").replace(SHARE, ""));
}
