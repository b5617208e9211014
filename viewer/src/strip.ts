// The strip: layers across, metrics down, a cell the darker the worse. A click opens the layer's card.
import { type Branch, branches } from "./branches";
import type { Diagnosis, Layer } from "./documents";
import { h, s, section } from "./elements";
import { term } from "./explain";
import { blockLabels, type Column, columns, folds } from "./folding";
import { firstSick, layerName, marks, MAIN_METRICS, type Metric, possibleRank, printable, reads, stored, symptomWords } from "./reading";
import type { Selection } from "./selection";
import { type Lanes, lanes, track } from "./track";

const TOP = 30; // pixels above the cells, for the mark of the first sick layer
const CELL = 24;
const GAP = 2;
const LABELS = 84; // left of the cells; the width of .row-names in viewer.css
const NARROWEST = 3;
const WIDEST = 34;
const FEW = 160; // layers that are never folded

export function strip(doc: Diagnosis, selection: Selection): HTMLElement {
  if (!doc.layers.length) return section("Layers", "strip", h("p", { class: "quiet" }, "No layer was observed."));
  const hidden = doc.layers.length > FEW ? folds(doc.layers, marks(doc).keys()) : [];
  const found = branches(doc);
  const beside = lanes(found);
  const holder = h("div", { class: "strip-holder" });
  const readout = h("p", { class: "readout", role: "status", "aria-live": "polite" });
  const frame = h(
    "div",
    {
      class: "strip",
      tabindex: 0,
      role: "application",
      "aria-label": "layers by metrics: arrow keys move over layers, Enter opens the card of one, Escape closes it",
      onkeydown: (event: KeyboardEvent) => {
        if (selection.key(event.key)) event.preventDefault();
      },
    },
    holder,
  );
  let folded = hidden.length > 0;
  let drawn: Drawn;
  let width = Math.max(200, Math.min(1056, innerWidth - 64) - LABELS); // until the real one is known
  const draw = () => {
    drawn = cells(doc, columns(doc.layers.length, folded ? hidden : []), width, selection, beside);
    holder.replaceChildren(drawn.svg);
    drawn.show(selection.choice.layer);
  };
  const left = hidden.reduce((sum, fold) => sum + fold.stop - fold.start, 0);
  const toggle = h(
    "button",
    {
      type: "button",
      class: "fold",
      "aria-pressed": String(folded),
      onclick: () => {
        folded = !folded;
        toggle.textContent = folded ? "Show every layer" : "Fold repeated blocks";
        toggle.setAttribute("aria-pressed", String(folded));
        draw();
      },
    },
    "Show every layer",
  );
  const tell = (index: number | null) => {
    const shown = index ?? selection.choice.layer;
    readout.replaceChildren(...(shown === null ? [hint(doc)] : reading(doc.layers[shown], shown, doc.layers.length)));
  };
  selection.onChange(({ layer }) => {
    drawn.show(layer);
    tell(layer);
  });
  selection.onHover(tell);
  tell(null);
  draw();
  onResize(frame, (now) => {
    if (Math.abs(now - width) < 1) return;
    width = now;
    draw();
  });
  const note = left
    ? h("p", { class: "quiet" }, `${left} layers of repeated blocks share columns: a column shows the worst of its layers. `, toggle)
    : null;
  const row = h("div", { class: "strip-row" }, rowNames(beside), frame);
  return section("Layers", "strip", intro(found), readout, row, legend(doc), note);
}

function intro(found: Branch[]): HTMLElement {
  const drawn = found.length ? ` Residual branches are drawn above the trunk, where + adds them back: ${found.length} here.` : "";
  return h("p", { class: "quiet" }, `From the input at the left to the output at the right; every column is the output of one module call.${drawn}`);
}

function rowNames(beside: Lanes): HTMLElement {
  const rows = MAIN_METRICS.map((metric) => h("div", {}, term(metric.key, metric.short)));
  const branched = beside.height ? h("div", { class: "quiet" }, "branches") : null;
  if (branched) branched.style.height = `${beside.height}px`;
  return h("div", { class: "row-names" }, branched, ...rows);
}

interface Drawn {
  svg: SVGSVGElement;
  show: (layer: number | null) => void;
}

function cells(doc: Diagnosis, shown: Column[], width: number, selection: Selection, beside: Lanes): Drawn {
  const step = Math.min(WIDEST, Math.max(NARROWEST, (width - 4) / shown.length));
  const total = Math.max(width, step * shown.length + 4);
  const top = TOP + beside.height;
  const height = top + MAIN_METRICS.length * (CELL + GAP) + 20;
  const svg = s("svg", { viewBox: `0 0 ${total} ${height}`, width: total, height, class: "cells", "aria-hidden": "true" }); // the readout says what is chosen
  svg.style.width = total > width ? `${total}px` : "100%";
  svg.append(...track(beside, shown, step, TOP));
  const badness = MAIN_METRICS.map((metric) => scale(metric, doc.layers, beside));
  MAIN_METRICS.forEach((metric, row) => {
    const y = top + row * (CELL + GAP);
    shown.forEach((column, place) => svg.append(cell(doc, metric, badness[row], column, place * step, y, step)));
  });
  svg.append(...begins(doc, shown, step, total, height), ...names(doc, shown, step, height));
  const outline = s("rect", { class: "outline", y: top - 3, height: MAIN_METRICS.length * (CELL + GAP) + 4, width: Math.max(step, 4), visibility: "hidden" });
  svg.append(outline);
  const layerAt = (event: MouseEvent): number | null => {
    const index = (event.target as Element).getAttribute("data-layer");
    return index === null ? null : Number(index);
  };
  svg.addEventListener("click", (event) => {
    const layer = layerAt(event);
    if (layer !== null) selection.choose(layer, true);
  });
  svg.addEventListener("mousemove", (event) => selection.hover(layerAt(event)));
  svg.addEventListener("mouseleave", () => selection.hover(null));
  const show = (layer: number | null) => {
    const place = layer === null ? -1 : shown.findIndex((column) => column.start <= layer && layer < column.stop);
    outline.setAttribute("visibility", place < 0 ? "hidden" : "visible");
    outline.setAttribute("x", String(place * step - 1));
  };
  return { svg, show };
}

function cell(doc: Diagnosis, metric: Metric, badness: Badness, column: Column, x: number, y: number, step: number): SVGRectElement {
  const layer = worst(doc, badness, column);
  const value = metric.measured(doc.layers[layer]);
  const bad = badness(doc.layers[layer], layer);
  const rect = s("rect", {
    x,
    y,
    width: Math.max(1, step - (step > 6 ? 1.5 : 0)),
    height: CELL,
    rx: step > 10 ? 2 : 0,
    class: bad === null ? "cell undefined" : bad < 0 ? "cell low" : "cell high",
    "data-layer": layer,
    "data-metric": metric.key,
    "data-value": value,
  });
  if (bad !== null) rect.style.setProperty("--t", `${Math.round(100 * Math.abs(bad))}%`);
  return rect;
}

type Badness = (layer: Layer, index: number) => number | null;

/** From -1 (too small) over 0 (fine) to 1 (bad); null where the metric is undefined, or zero by design. */
function scale(metric: Metric, layers: Layer[], beside: Lanes): Badness {
  // By how much is left, as the rules of the verdict see it: a rank of half the possible is still healthy.
  if (metric.axis === "share") {
    return (layer) => bounded(stored(metric, layer), (value) => 1 - Math.log(value) / Math.log(Math.max(2, possibleRank(layer))));
  }
  if (!metric.logarithmic) return (layer) => bounded(metric.measured(layer), (value) => -Math.log10(Math.max(1e-3, 1 - Math.abs(value))) / 3);
  const weights = layers.filter((layer) => layer.depth !== null && layer.gradient_norm);
  const reference = metric.key === "gradient_norm" ? (weights.at(-1)?.gradient_norm ?? 1) : 1;
  const decades = 4; // at which a scale is as bad as it gets
  return (layer, index) => {
    const value = metric.measured(layer);
    if (value === null || (value === 0 && (layer.status === "zero by design" || beside.closed(index)))) return null;
    return value > 0 ? Math.max(-1, Math.min(1, Math.log10(value / reference) / decades)) : -1;
  };
}

function bounded(value: number | null, bad: (value: number) => number): number | null {
  return value === null ? null : Math.max(0, Math.min(1, bad(value)));
}

function worst(doc: Diagnosis, badness: Badness, column: Column): number {
  let chosen = column.start;
  let most = -1;
  for (let index = column.start; index < column.stop; index++) {
    const bad = Math.abs(badness(doc.layers[index], index) ?? -1);
    if (bad > most) [chosen, most] = [index, bad];
  }
  return chosen;
}

function begins(doc: Diagnosis, shown: Column[], step: number, total: number, height: number): SVGElement[] {
  const first = firstSick(doc);
  if (first === null) return [];
  const place = shown.findIndex((column) => column.start <= first && first < column.stop);
  const x = (place + 0.5) * step;
  const end = place > shown.length / 2;
  const symptom = symptomWords(marks(doc).get(first)![0]);
  const named = `${symptom} from ${layerName(doc.layers[first])} on`;
  const words = textWidth(named) < (end ? x : total - x) - 12 ? named : `${symptom} from here on`; // the banner has the name
  return [
    s("line", { x1: x, x2: x, y1: TOP - 8, y2: height - 18, class: "marker" }),
    s("path", { d: `M${x - 5},${TOP - 12}h10l-5,8z`, class: "marker-head" }),
    s("text", { x: end ? x - 9 : x + 9, y: TOP - 8, "text-anchor": end ? "end" : "start", class: "marker-words" }, words),
  ];
}

function textWidth(text: string): number {
  return 6.4 * text.length;
}

/** A bracket below every block, and the whole name of as many as have room. */
function names(doc: Diagnosis, shown: Column[], step: number, height: number): SVGElement[] {
  const result: SVGElement[] = [];
  const room = shown.length * step;
  let free = 0;
  for (const { text, from, to } of blockLabels(doc.layers, shown)) {
    const [x, wide] = [from * step, (to - from) * step];
    if (to - from > 1 && wide > 6) result.push(s("path", { d: `M${x},${height - 16}v3h${wide - 3}v-3`, class: "bracket" }));
    const words = textWidth(text);
    const start = wide > words ? x + (wide - words) / 2 : x;
    if (start < free || start + words > room + 4) continue;
    result.push(s("text", { x: start, y: height - 2, class: "tick" }, text));
    free = start + words + 10;
  }
  return result;
}

function reading(layer: Layer, index: number, layers: number): Node[] {
  const parts: Node[] = [h("b", {}, `${index + 1}/${layers} `), h("code", {}, layerName(layer)), document.createTextNode(` ${printable(layer.kind)}`)];
  for (const metric of MAIN_METRICS) parts.push(h("span", {}, h("i", {}, ` ${metric.short} `), reads(metric, layer)));
  return parts;
}

function hint(doc: Diagnosis): Node {
  const first = firstSick(doc);
  const start = first === null ? "Choose a layer" : `Choose a layer, such as number ${first + 1}`;
  return document.createTextNode(`${start}: click, or move with the arrow keys and press Enter.`);
}

function legend(doc: Diagnosis): HTMLElement {
  const swatch = (kind: string, t: number) => {
    const box = s("svg", { class: "icon", viewBox: "0 0 16 16" }, s("rect", { x: 1, y: 1, width: 14, height: 14, class: `cell ${kind}` }));
    (box.firstChild as SVGElement).style.setProperty("--t", `${t}%`);
    return box;
  };
  const zero = doc.layers.some((layer) => layer.status === "zero by design");
  return h(
    "p",
    { class: "legend" },
    h("span", {}, swatch("high", 0), "fine"),
    h("span", {}, swatch("high", 100), "collapsed to one direction, or 10⁴ times too large"),
    h("span", {}, swatch("low", 100), "10⁴ times too small"),
    h("span", {}, swatch("undefined", 0), zero ? "undefined, or zero by design: a zero-initialized residual branch" : "undefined"),
  );
}

/** Tell the width of an element when it is first known, and when it has stopped changing. */
function onResize(element: HTMLElement, tell: (width: number) => void): void {
  let waiting = 0;
  let known = false;
  new ResizeObserver(() => {
    if (!element.clientWidth) return;
    clearTimeout(waiting);
    if (known) waiting = window.setTimeout(() => tell(element.clientWidth), 120);
    else tell(element.clientWidth);
    known = true;
  }).observe(element);
}
