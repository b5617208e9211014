// Depth profiles: five charts over the layers, theory dashed, a band where several seeds were drawn.
import { type Band, chart, decades, type Line, type Point, type Scales, stroke } from "./chart";
import type { Diagnosis } from "./documents";
import { h, howToRead, s, section } from "./elements";
import { sentence, term } from "./explain";
import { follow, READ_DEPTH, unit } from "./panels";
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
  const [measured, predicted] = [doc.layers.map(metric.measured), doc.layers.map(metric.predicted)];
  const lines = linesOf(doc, metric);
  const bands = bandsOf(doc, metric);
  const scales = chart({
    width: WIDTH,
    height: HEIGHT,
    x: [1, Math.max(2, doc.layers.length)],
    y: metric.logarithmic ? decades(measured, predicted) : unit([...measured, ...predicted]),
    logarithmic: metric.logarithmic,
    xName: "module call, input to output",
    lines,
    bands,
    title: `${metric.title} by layer`,
  });
  scales.svg.setAttribute("data-profile", metric.key);
  mark(doc, scales);
  const places = doc.layers.map((_, index) => index + 1);
  follow(scales, places, [(at) => measured[at - 1]], selection, true);
  const caption = metric.logarithmic ? `${metric.title} (log scale)` : metric.title;
  return h("figure", { class: "profile" }, h("figcaption", {}, term(metric.key, caption)), scales.svg, sentence(metric.key));
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

function legend(doc: Diagnosis): HTMLElement {
  const entry = (look: string, name: string) => h("span", {}, stroke(look), name);
  const hasTheory = doc.layers.some((layer) => layer.predicted !== null);
  return howToRead(
    READ_DEPTH,
    growthSentence(doc),
    entry("line-strong", "weight layers"),
    entry("line-faint", "every module"),
    entry("line-second", "rank around the mean"),
    doc.slope.value === null ? null : entry("line-fit", "fitted gradient growth"),
    hasTheory ? entry("line-theory", "theory") : null,
    firstSick(doc) === null ? null : h("span", {}, h("b", { class: "begins" }, "▼ "), "where the worst finding begins"),
    doc.seeds ? entry("line-band", `least to largest of ${doc.seeds.seeds.length} seeds`) : null,
  );
}
