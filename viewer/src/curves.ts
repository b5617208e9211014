// Curves of theory over depth: this setting, those kept to compare with, and what a built network measures.
import { chart, decades, type Line, type Point, stroke } from "./chart";
import type { Diagnosis, Layer } from "./documents";
import { h, s } from "./elements";
import { term } from "./explain";
import { MAIN_METRICS, type Metric, share, view } from "./reading";

export interface Row {
  depth: number;
  rms: number | null;
  overlap: number | null;
  gap: number | null;
  effective_rank: number | null;
}

/** How deep a network may be by theory; null where not even one layer trains. */
export interface Reach {
  deepest: number | null;
  searched: number;
  symptoms: string[];
}

export interface Measured {
  rows: Row[];
  gradients: Point[];
}

export interface Curves extends Measured {
  reach: Reach | null;
}

interface Drawing {
  depth: number;
  most: number; // directions that samples can have
  now: Curves;
  ghost: Curves | null; // the setting before, until this one has arrived
  kept: { curves: Curves; place: number }[];
  measured: Measured | null;
}

/** What a network of `mlp(...)` measures where theory has its numbers: at the output of every hidden layer. */
export function measuredCurves(doc: Diagnosis): Measured {
  const outputs = new Map<string, Layer>();
  for (const layer of doc.layers) for (const name of [layer.name, ...layer.also]) outputs.set(name, layer);
  const rows: Row[] = [];
  for (let depth = 1; outputs.has(`layers.${depth - 1}`); depth++) {
    const layer = outputs.get(`layers.${depth - 1}`)!;
    rows.push({ depth, rms: layer.rms, overlap: view(layer, "overlap"), gap: view(layer, "gap"), effective_rank: view(layer, "effective_rank") });
  }
  const weights = doc.layers.filter((layer) => layer.depth !== null);
  const last = weights.at(-1)?.gradient_norm;
  const gradients = weights.slice(0, rows.length).map((layer, index): Point => [index + 1, last && layer.gradient_norm !== null ? layer.gradient_norm / last : null]);
  return { rows, gradients };
}

/** Theory and a network that was built have gradients relative to the output; a rank is drawn as its share of the possible. */
function pointsOf(metric: Metric, { rows, gradients }: Measured, most: number): Point[] {
  if (metric.key === "gradient_norm") return gradients;
  const drawn = (value: number | null) => (metric.axis === "share" ? share(value, most) : value);
  return rows.map((row) => [row.depth, drawn(row[metric.key as keyof Row])]);
}

function upward(metric: Metric): string {
  if (metric.key === "gradient_norm") return "times that at the output (log scale)";
  return metric.logarithmic ? `${metric.short} (log scale)` : metric.short;
}

export function drawCurves(figures: HTMLElement, drawing: Drawing): void {
  const { depth, most, now, ghost, kept, measured } = drawing;
  const deepest = now.reach?.symptoms.length ? now.reach.deepest : null;
  const drawn = MAIN_METRICS.map((metric) => {
    const { key, title, logarithmic } = metric;
    const read = (curves: Measured) => pointsOf(metric, curves, most);
    const points = read(now);
    const beside = kept.map(({ curves, place }): Line => ({ points: read(curves), look: `line-kept kept-${place}`, name: `kept ${place}` }));
    const lines: Line[] = [...beside, { points, look: "line-theory", name: key }];
    if (ghost) lines.unshift({ points: read(ghost), look: "line-faint", name: "before" });
    if (measured) lines.push({ points: read(measured), look: "line-measured", name: "measured", dots: true });
    const own = [points, measured ? read(measured) : []].flatMap((one) => one.map((p) => p[1]));
    const values = [...own, ...beside.flatMap((line) => line.points.map((p) => p[1]))];
    const y: [number, number] = logarithmic ? decades([1, ...own], values) : [Math.min(0, ...values.map((value) => value ?? 0)), 1];
    const { svg, x, top, bottom } = chart({ width: 330, height: 190, x: [1, Math.max(2, depth)], y, logarithmic, lines, xName: "depth (hidden layers)", yName: upward(metric), title });
    if (deepest !== null && deepest <= depth) svg.append(s("line", { x1: x(deepest), x2: x(deepest), y1: top, y2: bottom, class: "marker", "data-deepest": deepest }));
    svg.setAttribute("data-curve", key);
    svg.setAttribute("data-end", String(points.at(-1)?.[1] ?? ""));
    return h("figure", { class: "profile" }, h("figcaption", {}, term(key, title)), svg);
  });
  figures.replaceChildren(...drawn, legend(drawing, deepest !== null && deepest <= depth));
}

function legend({ kept, measured }: Drawing, marked: boolean): HTMLElement {
  const entry = (look: string, words: string) => h("span", {}, stroke(look), words);
  return h(
    "div",
    { class: "reading key", id: "curves-legend" },
    h("h3", { class: "minor" }, "Legend"),
    entry("line-theory", "theory, this setting"),
    measured ? h("span", {}, s("svg", { class: "stroke", viewBox: "0 0 26 10" }, s("circle", { cx: 13, cy: 5, r: 3, class: "dot line-measured" })), "measured, the network built") : null,
    marked ? entry("marker", "deepest network that trains, by theory") : null,
    kept.length ? h("span", {}, ...kept.map(({ place }) => stroke(`line-kept kept-${place}`)), "settings kept") : null,
  );
}

/** How the curves of a kept setting look. */
export function swatch(place: number): SVGElement {
  return stroke(`line-kept kept-${place}`);
}
