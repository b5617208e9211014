// Depth profiles: five charts over the layers, theory dashed, a band where several seeds were drawn.
import { type Band, chart, decades, type Line, type Point, type Scales } from "./chart";
import type { Diagnosis } from "./documents";
import { h, s, section } from "./elements";
import { sentence, term } from "./explain";
import { firstSick, growthSentence, MAIN_METRICS, marks, METRICS, type Metric, possibleRank, share, symptomWords } from "./reading";
import type { Selection } from "./selection";

const [WIDTH, HEIGHT] = [360, 190];
const DOTS = 120; // weight layers up to which each has a dot

export function profiles(doc: Diagnosis, selection: Selection): HTMLElement | null {
  if (!doc.layers.length) return null;
  const figures = MAIN_METRICS.map((metric) => profile(doc, metric, selection));
  return section(
    "Depth profiles",
    "profiles",
    h("div", { class: "profiles" }, ...figures, legend(doc)),
  );
}

function profile(doc: Diagnosis, metric: Metric, selection: Selection): HTMLElement {
  const lines = linesOf(doc, metric);
  const bands = bandsOf(doc, metric);
  const scales = chart({
    width: WIDTH,
    height: HEIGHT,
    x: [1, Math.max(2, doc.layers.length)],
    y: range(doc, metric),
    logarithmic: metric.logarithmic,
    xName: "module call, input to output",
    lines,
    bands,
    title: `${metric.title} by layer`,
  });
  scales.svg.setAttribute("data-profile", metric.key);
  mark(doc, scales);
  follow(doc, metric, scales, selection);
  const caption = metric.logarithmic ? `${metric.title} (log scale)` : metric.title;
  return h("figure", { class: "profile" }, h("figcaption", {}, term(metric.key, caption)), scales.svg, sentence(metric.key));
}

function range(doc: Diagnosis, metric: Metric): [number, number] {
  const measured = doc.layers.map(metric.measured);
  const predicted = doc.layers.map(metric.predicted);
  if (metric.logarithmic) return decades(measured, predicted);
  const least = [...measured, ...predicted].reduce((low: number, value) => Math.min(low, value ?? 0), 0);
  return [Math.floor(2 * Math.max(-1, least) + 0.1) / 2, 1]; // a cosine that is negative by chance needs no axis of its own
}

function linesOf(doc: Diagnosis, metric: Metric): Line[] {
  const all = doc.layers.map((layer, index): Point => [index + 1, metric.measured(layer)]);
  const weights = doc.layers.flatMap((layer, index) => (layer.depth === null ? [] : [index]));
  const dots = weights.length <= DOTS;
  const strong = weights.length > 1 ? weights.map((index) => all[index]) : all;
  const lines: Line[] = weights.length > 1 && metric.key !== "effective_rank" ? [{ points: all, look: "line-faint", name: "every module" }] : [];
  if (metric.key === "effective_rank") {
    const around = METRICS.find((one) => one.key === "centered_rank")!;
    const centered = (index: number): Point => [index + 1, around.measured(doc.layers[index])];
    lines.push({ points: strong.map(([x]) => centered(x - 1)), look: "line-second", name: "around the mean" });
  }
  lines.push({ points: strong, look: "line-strong", name: "measured", dots });
  if (metric.key === "gradient_norm") lines.push(...fit(doc));
  lines.push(...theory(doc, metric, weights));
  return lines;
}

/** What theory expects: at the weight layers where it speaks of several, else wherever it speaks. */
function theory(doc: Diagnosis, metric: Metric, weights: number[]): Line[] {
  const values = doc.layers.map(metric.predicted);
  const spoken = values.flatMap((value, index) => (value === null ? [] : [index]));
  if (!spoken.length) return [];
  const at = weights.filter((index) => values[index] !== null).length > 1 ? weights : spoken;
  return [{ points: at.map((index) => [index + 1, values[index]]), look: "line-theory", name: "theory" }];
}

/** The line behind the slope: least squares passes through the mean, so slope and mean are enough. */
function fit(doc: Diagnosis): Line[] {
  const slope = doc.slope.value;
  const points = doc.layers.flatMap((layer, index): [number, number][] =>
    layer.depth !== null && layer.gradient_norm ? [[index + 1, Math.log(layer.gradient_norm)]] : [],
  );
  if (slope === null || points.length !== doc.slope.layers || points.length < 2) return [];
  const mean = points.reduce((sum, p) => sum + p[1], 0) / points.length;
  const middle = (points.length - 1) / 2;
  const fitted = points.map(([x], order): Point => [x, Math.exp(Math.min(690, mean - slope * (order - middle)))]);
  return [{ points: fitted, look: "line-fit", name: "fit" }];
}

function bandsOf(doc: Diagnosis, metric: Metric): Band[] {
  const known = doc.seeds?.ranges[metric.key];
  if (!known) return [];
  const scaled = (value: number | null, index: number) =>
    metric.axis === "share" ? share(value, possibleRank(doc.layers[index])) : value;
  const rows = doc.layers.flatMap((layer, index): [number, number | null, number | null][] =>
    layer.depth === null ? [] : [[index + 1, scaled(known.low[index], index), scaled(known.high[index], index)]],
  );
  return [{ points: rows, look: "band" }];
}

function mark(doc: Diagnosis, { svg, x, top, bottom }: Scales): void {
  const first = firstSick(doc);
  if (first === null) return;
  const at = x(first + 1);
  svg.append(
    s("line", { x1: at, x2: at, y1: top, y2: bottom, class: "marker" }),
    s("path", { d: `M${at - 4},${top - 6}h8l-4,6z`, class: "marker-head" }, s("title", {}, `${symptomWords(marks(doc).get(first)![0])} from here on`)),
  );
}

/** A hair line under the mouse, at the chosen layer and at the layer that another part of the page points to. */
function follow(doc: Diagnosis, metric: Metric, scales: Scales, selection: Selection): void {
  const { svg, x, y, top, bottom } = scales;
  const hair = s("line", { y1: top, y2: bottom, class: "hair", visibility: "hidden" });
  const dot = s("circle", { r: 3.5, class: "hair-dot", visibility: "hidden" });
  svg.append(hair, dot);
  const show = (layer: number | null) => {
    const index = layer ?? selection.choice.layer;
    const value = index === null ? null : metric.measured(doc.layers[index]);
    const at = value === null ? null : y(value);
    for (const [element, visible] of [[hair, index !== null], [dot, at !== null]] as const) {
      element.setAttribute("visibility", visible ? "visible" : "hidden");
    }
    if (index === null) return;
    hair.setAttribute("x1", String(x(index + 1)));
    hair.setAttribute("x2", String(x(index + 1)));
    dot.setAttribute("cx", String(x(index + 1)));
    if (at !== null) dot.setAttribute("cy", String(at));
  };
  selection.onHover(show);
  selection.onChange(({ layer }) => show(layer));
  const at = (event: MouseEvent) => {
    const box = svg.getBoundingClientRect();
    const pixel = ((event.clientX - box.left) / box.width) * WIDTH;
    return Math.min(doc.layers.length, Math.max(1, Math.round(scales.invert(pixel)))) - 1;
  };
  svg.addEventListener("mousemove", (event) => selection.hover(at(event)));
  svg.addEventListener("mouseleave", () => selection.hover(null));
  svg.addEventListener("click", (event) => selection.choose(at(event), true));
}

function legend(doc: Diagnosis): HTMLElement {
  const entry = (look: string, name: string) =>
    h("span", {}, s("svg", { class: "stroke", viewBox: "0 0 26 10" }, s("path", { d: "M0,5h26", class: `line ${look}` })), name);
  const hasTheory = doc.layers.some((layer) => layer.predicted !== null);
  return h(
    "div",
    { class: "reading key" },
    h("h4", {}, "How to read"),
    h("p", {}, "Left is the input, right the output. Healthy networks keep enough directions at any depth and hold the gradient level."),
    h("p", {}, growthSentence(doc)),
    entry("line-strong", "weight layers"),
    entry("line-faint", "every module"),
    entry("line-second", "rank around the mean"),
    doc.slope.value === null ? null : entry("line-fit", "fitted gradient growth"),
    hasTheory ? entry("line-theory", "theory") : null,
    firstSick(doc) === null ? null : h("span", {}, h("b", { class: "begins" }, "▼ "), "where the worst finding begins"),
    doc.seeds ? entry("line-band", `least to largest of ${doc.seeds.seeds.length} seeds`) : null,
  );
}
