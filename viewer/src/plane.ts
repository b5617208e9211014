// The trainability plane: orthogonality gap across, gradient growth per weight layer up (its logarithm is the scale);
// a network trains near gap 0 and growth ×1.
import { scaleLinear } from "d3-scale";
import { tickLabel } from "./chart";
import type { Diagnosis, Known } from "./documents";
import { h, icon, s, section, symbol } from "./elements";
import { term } from "./explain";
import { prescriptionsOf } from "./prescriptions";
import { factor, fixed, growthSentence, layerName, look, printable, quotedLayer } from "./reading";

const [WIDTH, HEIGHT] = [680, 430];
const [LEFT, RIGHT, TOP, BOTTOM] = [58, 664, 18, 372];
const FLATTEST = 0.1; // half height of the axis when every network is flatter: noise must not look steep

const LONGEST_LABEL = 36; // letters of a name beside its mark

type Place = [number, number];

export function measured(doc: Diagnosis): Place | null {
  return doc.gap === null || doc.slope.value === null ? null : [doc.gap, doc.slope.value];
}

function predicted(doc: Diagnosis): Place | null {
  const gap = quotedLayer(doc)?.predicted?.gap ?? null;
  const slope = doc.prediction.slope;
  return gap === null || slope === null || measured(doc) === null ? null : [gap, slope];
}

export function plane(docs: Diagnosis[], chosen: number, cloud: Known[], choose: (index: number) => void): HTMLElement {
  const doc = docs[chosen];
  const extent = height(doc, cloud);
  const x = scaleLinear([0, 1], [LEFT, RIGHT]);
  const y = scaleLinear([-extent, extent], [BOTTOM, TOP]).clamp(true);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane", role: "img", "aria-label": "trainability plane" });
  svg.append(...frame(x, y, extent));
  for (const known of cloud) svg.append(cloudMark(known, x(Math.min(1, known.gap)), y(known.slope)));
  docs.forEach((other, index) => {
    if (index !== chosen) svg.append(...network(other, index, x, y, () => choose(index)));
  });
  seeds(doc, svg, x, y);
  svg.append(...arrows(doc, x, y), ...own(doc, docs.length > 1 ? chosen : null, x, y));
  return section(
    "Trainability plane",
    "plane",
    h("div", { class: "plane-row" }, h("div", {}, svg, legend(docs, doc, cloud)), text(doc, cloud)),
  );
}

/** Half the height of the axis: room for this network and its error, for most of those that are known, and no more. */
export function height(doc: Diagnosis, cloud: Known[]): number {
  const own = 1.25 * (Math.abs(doc.slope.value ?? 0) + (doc.slope.standard_error ?? 0));
  const steepest = Math.max(FLATTEST, own);
  const known = cloud.map((one) => Math.abs(one.slope)).sort((a, b) => a - b);
  const most = known.length ? known[Math.floor(0.9 * (known.length - 1))] : 0;
  const theory = Math.abs(predicted(doc)?.[1] ?? 0) * 1.25;
  return Math.max(steepest, most, Math.min(theory, 3 * steepest));
}

export function frame(x: (v: number) => number, y: (v: number) => number, extent: number): SVGElement[] {
  const result: SVGElement[] = [];
  for (const tick of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    result.push(s("line", { x1: x(tick), x2: x(tick), y1: TOP, y2: BOTTOM, class: "grid" }));
    result.push(s("text", { x: x(tick), y: BOTTOM + 17, "text-anchor": "middle", class: "tick" }, tickLabel(tick)));
  }
  for (const [tick, name] of growthTicks(extent)) {
    result.push(s("line", { x1: LEFT, x2: RIGHT, y1: y(tick), y2: y(tick), class: tick === 0 ? "axis" : "grid" }));
    result.push(s("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end", class: "tick" }, name));
  }
  const words = (at: number, up: number, anchor: string, kind: string, what: string) =>
    s("text", { x: at, y: up, "text-anchor": anchor, class: kind }, what);
  result.push(
    words((LEFT + RIGHT) / 2, HEIGHT - 16, "middle", "axis-name", "orthogonality gap"),
    words(LEFT, HEIGHT - 16, "start", "unit", "← samples apart"),
    words(RIGHT, HEIGHT - 16, "end", "unit", "one direction →"),
    words(LEFT + 6, TOP + 14, "start", "unit", "↑ gradients grow toward the input"),
    words(LEFT + 6, BOTTOM - 8, "start", "unit", "↓ gradients shrink toward the input"),
    s("text", { class: "axis-name", "text-anchor": "middle", transform: `translate(13 ${(TOP + BOTTOM) / 2}) rotate(-90)` }, "gradient growth per weight layer"),
  );
  return result;
}

const STEPS = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1e3, 1e4, 1e6]; // factors that have a tick

/** Up to three ticks on both sides of ×1: the logarithm where they are, and their names. */
function growthTicks(extent: number): [number, string][] {
  const within = STEPS.filter((step) => Math.log(step) < 0.95 * extent);
  const apart = within.filter((step, index) => Math.log(step) > 0.2 * extent && (index === 0 || Math.log(step) - Math.log(within[index - 1]) > 0.12 * extent)).slice(-3);
  return [[0, "×1"], ...apart.flatMap((step): [number, string][] => [[Math.log(step), `×${step}`], [-Math.log(step), `÷${step}`]])];
}

/** A filled dot for a network that trained, a cross for one that did not. */
export function cloudMark(known: Known, x: number, y: number): SVGElement {
  const words = `${known.family ? `${printable(known.family)}: ` : ""}${known.trained ? "trained" : "did not train"}`;
  const data = { "data-known": known.trained ? "trained" : "failed", "data-gap": known.gap, "data-slope": known.slope };
  return known.trained
    ? s("circle", { cx: x, cy: y, r: 3, class: "known trained", ...data }, s("title", {}, words))
    : s("path", { d: `M${x - 3},${y - 3}l6,6m0,-6l-6,6`, class: "known failed", ...data }, s("title", {}, words));
}

function network(doc: Diagnosis, index: number, x: (v: number) => number, y: (v: number) => number, choose: () => void): SVGElement[] {
  const at = measured(doc);
  if (at === null) return [];
  const mark = s(
    "g",
    { class: "faded", "data-network": index, onclick: choose },
    symbol(look(doc.verdict), x(Math.min(1, at[0])), y(at[1]), 5),
    s("title", {}, `${index + 1}. ${printable(doc.name)}: ${doc.verdict}`),
    s("text", { x: x(Math.min(1, at[0])) + 9, y: y(at[1]) + 4, class: "label" }, index + 1),
  );
  return [mark];
}

/** Where other seeds of the same network lie. */
function seeds(doc: Diagnosis, svg: SVGElement, x: (v: number) => number, y: (v: number) => number): void {
  doc.seeds?.seeds.forEach((seed, index) => {
    const [gap, slope] = [doc.seeds!.gaps[index], doc.seeds!.slopes[index]];
    if (gap === null || slope === null) return;
    const at = symbol(look(doc.seeds!.verdicts[index]), x(Math.min(1, gap)), y(slope), 3.5);
    at.append(s("title", {}, `seed ${seed}: ${doc.seeds!.verdicts[index]}`));
    at.classList.add("seed");
    at.setAttribute("data-seed", String(seed));
    svg.append(at);
  });
}

/** To where theory puts the network, and to where prescriptions would move it. */
function arrows(doc: Diagnosis, x: (v: number) => number, y: (v: number) => number): SVGElement[] {
  const from = measured(doc);
  if (from === null) return [];
  const result: SVGElement[] = [];
  const to = predicted(doc);
  const within = (place: Place) => y(place[1]) > TOP && y(place[1]) < BOTTOM; // else its line ends on the border
  const link = (place: Place, kind: string) =>
    s("line", { x1: x(Math.min(1, from[0])), y1: y(from[1]), x2: x(Math.min(1, place[0])), y2: y(place[1]), class: kind });
  if (to !== null) {
    result.push(link(to, "theory-link"));
    if (within(to)) result.push(s("circle", { cx: x(Math.min(1, to[0])), cy: y(to[1]), r: 8, class: "hollow", "data-theory": "" }));
  }
  prescriptionsOf(doc).forEach((one, index) => {
    const effect = one.measured ?? one.predicted;
    if (effect === null || effect.gap === null || effect.slope === null) return;
    const place: Place = [effect.gap, effect.slope];
    const [px, py] = [x(Math.min(1, place[0])), y(place[1])];
    result.push(
      link(place, "fix-link"),
      s("circle", { cx: px, cy: py, r: 5, class: one.measured ? "fixed" : "fixed hoped" }, s("title", {}, printable(one.name))),
      s("text", { x: px + 8, y: py + 4, class: "label" }, `fix ${index + 1}`),
    );
  });
  return result;
}

function own(doc: Diagnosis, index: number | null, x: (v: number) => number, y: (v: number) => number): SVGElement[] {
  const at = measured(doc);
  if (at === null) return [];
  const [px, error] = [x(Math.min(1, at[0])), doc.slope.standard_error ?? 0];
  const kind = look(doc.verdict);
  const name = `${index === null ? "" : `${index + 1} `}${doc.name.length > LONGEST_LABEL ? "this network" : printable(doc.name)}`;
  const right = px < (LEFT + RIGHT) / 2;
  const mark = symbol(kind, px, y(at[1]), 7);
  for (const [key, value] of Object.entries({ "data-own": "", "data-gap": at[0], "data-slope": at[1] })) mark.setAttribute(key, String(value));
  return [
    s("line", { x1: px, x2: px, y1: y(at[1] - error), y2: y(at[1] + error), class: `whisker ${kind}` }),
    mark,
    s("text", { x: px + (right ? 16 : -16), y: y(at[1]) + 4, "text-anchor": right ? "start" : "end", class: "label own" }, name),
  ];
}

function legend(docs: Diagnosis[], doc: Diagnosis, cloud: Known[]): HTMLElement {
  const entry = (mark: SVGElement, name: string) =>
    h("span", {}, s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, mark), name);
  const verdicts = [...new Set(docs.map((one) => one.verdict))];
  return h(
    "p",
    { class: "legend" },
    ...verdicts.map((verdict) => h("span", {}, icon(look(verdict)), verdict.toLowerCase())),
    predicted(doc) && entry(s("circle", { cx: 8, cy: 8, r: 6, class: "hollow" }), "where theory puts it"),
    cloud.some((one) => one.trained) && entry(s("circle", { cx: 8, cy: 8, r: 3.5, class: "known trained" }), "networks that trained"),
    cloud.some((one) => !one.trained) && entry(s("path", { d: "M4,4l8,8m0,-8l-8,8", class: "known failed" }), "networks that did not"),
  );
}

function text(doc: Diagnosis, cloud: Known[]): HTMLElement {
  const [at, last] = [measured(doc), quotedLayer(doc)];
  return h(
    "div",
    { class: "reading" },
    at === null
      ? h("p", {}, "This network has no mark: its orthogonality gap or its gradient growth was not measured.")
      : h("p", {}, "This network: orthogonality gap ", h("b", {}, fixed(at[0])), ", gradient ", h("b", {}, factor(at[1])), " per weight layer. ", growthSentence(doc)),
    h("p", {}, "Across: ", term("gap"), " at ", last === null ? "the last layer" : h("code", {}, layerName(last)), ", 0 for orthogonal samples, near 1 for a single direction."),
    h("p", {}, "Up: ", term("slope"), " on the way back to the input; the whisker is one standard error."),
    h("p", {}, "Gap 0 and ×1 are best: samples that stay apart while gradients explode train no better than level gradients through collapsed samples."),
    cloud.length ? h("p", {}, `Around it: ${cloud.length} networks that were trained. Marks on the border lie beyond it.`) : null,
  );
}
