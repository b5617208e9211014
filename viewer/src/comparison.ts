// Two diagnoses of a network: both verdicts, numbers, what went and came, profiles overlaid, the way in the plane.
import { scaleLinear } from "d3-scale";
import type { Line } from "./chart";
import type { Diagnosis, Known, Layer } from "./documents";
import { h, howToRead, icon, s, section, symbol, table } from "./elements";
import { answer, ending, explained, verdict } from "./page";
import { panel, panels, READ_DEPTH } from "./panels";
import { cloudMark, frame, height, measured } from "./plane";
import { count, factor, fixed, layerName, look, MAIN_METRICS, measure, printable, reads, shortened, symptomWords, UNDEFINED, unitWords } from "./reading";
import type { ComparisonDocument } from "./types";

const WHEN = ["before", "after"] as const;
const LOOKS = { before: "line-second", after: "line-strong" };
const SHOWN = 12; // weight layers in the table
const COLUMNS = ["gap", "effective_rank", "gradient_norm"]; // of them
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [680, 430, 58, 664, 18, 372]; // as the plane of a diagnosis
const [NEAR, HEAD] = [11, 9]; // pixels from a mark to the end of the arrow, and the length of its head

export function comparison(doc: ComparisonDocument, cloud: Known[]): Node[] {
  return [changed(doc), ...comparisonParts(doc, cloud), ending(doc, "comparison")];
}

/** Both verdicts and the sentence, in the color of what it is now. */
export function changed(doc: ComparisonDocument): HTMLElement {
  const signs = h("span", { class: "verdicts" }, verdict(doc.verdict.before), " → ", verdict(doc.verdict.after));
  return answer(look(doc.verdict.after), signs, printable(doc.summary));
}

/** All below the banner. */
export function comparisonParts(doc: ComparisonDocument, cloud: Known[]): HTMLElement[] {
  const rows = doc.numbers.map((one) => [explained(one.name, unitWords(one.unit)), ...WHEN.map((when) => written(one, when))]);
  const all = [
    section("Numbers", "numbers", table(["quantity", ...WHEN], rows, new Set([1, 2]), "compared")),
    findings("No longer found", "vanished", doc.vanished),
    findings("Newly found", "appeared", doc.appeared),
    profiles(doc),
    section("Trainability plane", "change-plane", plane(doc, cloud)),
    layers(doc),
  ];
  return all.filter((one) => one !== null);
}

function written(row: ComparisonDocument["numbers"][number], when: (typeof WHEN)[number]): string {
  const value = row[when];
  return row.name === "parameters" && value !== null ? count(value) : measure(value, row.unit);
}

function findings(title: string, id: string, found: ComparisonDocument["vanished"]): HTMLElement | null {
  if (!found.length) return null;
  const rows = found.map((one) => [verdict(one.severity), explained(one.check, symptomWords(one.symptom)), printable(one.reason), one.layer ? h("code", {}, printable(one.layer)) : ""]);
  return section(title, id, table(["severity", "check", "result", "begins at"], rows, new Set(), "checks"));
}

function profiles(doc: ComparisonDocument): HTMLElement | null {
  const weights = (when: (typeof WHEN)[number]) => doc[when].layers.filter((layer) => layer.depth !== null);
  // A line through one point is none: then every module call is drawn.
  const byWeight = WHEN.every((when) => weights(when).length > 1);
  const placed = (when: (typeof WHEN)[number]): [number, Layer][] =>
    byWeight ? weights(when).map((layer) => [layer.depth!, layer]) : doc[when].layers.map((layer, index) => [index + 1, layer]);
  if (!WHEN.some((when) => placed(when).length)) return null;
  const figures = MAIN_METRICS.map((metric) =>
    panel(metric, WHEN.map((when): Line => ({ points: placed(when).map(([x, layer]) => [x, metric.measured(layer)]), look: LOOKS[when], name: when }))),
  );
  const xName = byWeight ? "weight layer, from input to output" : "module call, from input to output";
  const reading = howToRead(READ_DEPTH, "Point at a chart, or press arrow keys on it, to read all of them at one layer.");
  return section("Depth profiles, before and after", "change-profiles", panels(figures, xName, null, reading));
}

/** Where both networks are; one that has no gap or no slope is not placed. */
function plane(doc: ComparisonDocument, cloud: Known[]): HTMLElement {
  const extent = Math.max(height(doc.before, cloud), height(doc.after, cloud));
  const x = scaleLinear([0, 1], [LEFT, RIGHT]).clamp(true);
  const y = scaleLinear([-extent, extent], [BOTTOM, TOP]).clamp(true);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane", role: "img", "aria-label": "trainability plane before and after" });
  svg.append(...frame(x, y, extent), ...cloud.map((known) => cloudMark(known, x(known.gap), y(known.slope))));
  const at = (one: Diagnosis): [number, number] | null => {
    const place = measured(one);
    return place && [x(place[0]), y(place[1])];
  };
  const [from, to] = [at(doc.before), at(doc.after)];
  if (from && to) svg.append(...arrow(from, to));
  for (const when of WHEN) svg.append(...own(doc[when], when, at(doc[when])));
  const mark = (shape: SVGElement, name: string) => h("span", {}, s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, shape), name);
  const legend = h(
    "p",
    { class: "legend" },
    ...[...new Set(WHEN.map((when) => doc[when].verdict))].map((word) => h("span", {}, icon(look(word)), word.toLowerCase())),
    mark(s("path", { d: "M1,8h8m-1,-4l6,4l-6,4z", class: "change change-head" }), "from before to after"),
    cloud.some((one) => one.trained) && mark(s("circle", { cx: 8, cy: 8, r: 3.5, class: "known trained" }), "networks that trained"),
    cloud.some((one) => !one.trained) && mark(s("path", { d: "M4,4l8,8m0,-8l-8,8", class: "known failed" }), "networks that did not"),
  );
  return h("div", { class: "plane-row" }, h("div", {}, svg, legend), reading(doc, cloud.length));
}

/** From mark to mark, without touching either; nothing where they are too close for it. */
function arrow(from: [number, number], to: [number, number]): SVGElement[] {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  if (length <= 2 * NEAR + HEAD) return [];
  const [right, down] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
  const tip = [to[0] - NEAR * right, to[1] - NEAR * down];
  const neck = [tip[0] - HEAD * right, tip[1] - HEAD * down];
  const wing = [(HEAD / 2) * down, (-HEAD / 2) * right];
  return [
    s("line", { x1: from[0] + NEAR * right, y1: from[1] + NEAR * down, x2: neck[0], y2: neck[1], class: "change" }),
    s("path", { d: `M${tip[0]},${tip[1]}L${neck[0] + wing[0]},${neck[1] + wing[1]}L${neck[0] - wing[0]},${neck[1] - wing[1]}z`, class: "change-head" }),
  ];
}

function own(doc: Diagnosis, when: string, at: [number, number] | null): SVGElement[] {
  if (at === null) return [];
  const right = at[0] < (LEFT + RIGHT) / 2;
  const label = s("text", { x: at[0] + (right ? 14 : -14), y: at[1] + 4, "text-anchor": right ? "start" : "end", class: "label own" }, when);
  return [s("g", { "data-when": when, "data-gap": doc.gap, "data-slope": doc.slope.value }, symbol(look(doc.verdict), at[0], at[1], 7), label)];
}

function reading(doc: ComparisonDocument, known: number): HTMLElement {
  const place = (when: (typeof WHEN)[number], title: string) =>
    h("p", {}, `${title}: orthogonality gap `, h("b", {}, fixed(doc[when].gap)), ", gradient ", h("b", {}, factor(doc[when].slope.value)), ` per weight layer, ${doc[when].verdict}.`);
  return h(
    "div",
    { class: "reading" },
    place("before", "Before"),
    place("after", "After"),
    h("p", {}, "Across: how far the samples are from orthogonal at the last layer where they can have the most directions. Up: by what factor the gradient grows at every weight layer on the way back to the input. Gap 0 and ×1 are best."),
    known ? h("p", {}, `Around them: ${known} networks that were trained. Marks on the border lie beyond it.`) : null,
  );
}

/** About twelve weight layers evenly spaced along the depth, the first and the last among them. */
function layers(doc: ComparisonDocument): HTMLElement | null {
  const weights = doc.layers.filter((pair) => pair.depth !== null);
  const step = Math.max(1, Math.ceil(weights.length / SHOWN));
  const shown = weights.filter((_, index) => index % step === 0 || index === weights.length - 1);
  if (!shown.length) return null;
  const id = (one: { name: string; call: number }) => `${one.call} ${one.name}`;
  const known = WHEN.map((when) => new Map(doc[when].layers.map((layer) => [id(layer), layer])));
  const columns = MAIN_METRICS.filter((metric) => COLUMNS.includes(metric.key));
  const rows = shown.map((pair) => {
    const both = known.map((of) => of.get(id(pair)));
    const name = h("code", {}, shortened(layerName(both[1] ?? both[0]!), 80));
    return [name, ...columns.flatMap((metric) => both.map((layer) => (layer ? reads(metric, layer) : UNDEFINED)))];
  });
  const left = weights.length - shown.length;
  const heads = ["layer", ...columns.flatMap((metric) => [`${metric.short} before`, "after"])];
  return section(left ? `Weight layers (${left} between them left out)` : "Weight layers", "change-layers", table(heads, rows, new Set(heads.slice(1).map((_, index) => index + 1))));
}
