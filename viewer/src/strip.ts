// The strip: layers across, metrics down, a cell the darker the worse. A click opens the layer's card.
import type { Diagnosis, Layer } from "./documents";
import { h, s, section } from "./elements";
import { type Column, columns, folds } from "./folding";
import { firstSick, layerName, MAIN_METRICS, marks, type Metric, possibleRank, reads, shortened, stored } from "./reading";
import type { Selection } from "./selection";

const LABELS = 76; // pixels left of the cells
const TOP = 30; // above them, for the mark of the first sick layer
const CELL = 24;
const GAP = 2;
const NARROWEST = 3;
const WIDEST = 34;
const FEW = 160; // layers that are never folded

export function strip(doc: Diagnosis, selection: Selection): HTMLElement {
  if (!doc.layers.length) return section("Layers", "strip", h("p", { class: "quiet" }, "No layer was observed."));
  const hidden = doc.layers.length > FEW ? folds(doc.layers, marks(doc).keys()) : [];
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
  let width = Math.max(300, Math.min(1056, innerWidth - 64)); // until the real one is known
  const draw = () => {
    drawn = cells(doc, columns(doc.layers.length, folded ? hidden : []), width, selection);
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
  return section("Layers", "strip", readout, frame, legend(), note);
}

interface Drawn {
  svg: SVGSVGElement;
  show: (layer: number | null) => void;
}

function cells(doc: Diagnosis, shown: Column[], width: number, selection: Selection): Drawn {
  const step = Math.min(WIDEST, Math.max(NARROWEST, (width - LABELS - 4) / shown.length));
  const total = Math.max(width, LABELS + step * shown.length + 4);
  const height = TOP + MAIN_METRICS.length * (CELL + GAP) + 20;
  const svg = s("svg", { viewBox: `0 0 ${total} ${height}`, width: total, height, class: "cells" });
  svg.style.width = total > width ? `${total}px` : "100%";
  const badness = MAIN_METRICS.map((metric) => scale(metric, doc.layers));
  MAIN_METRICS.forEach((metric, row) => {
    const y = TOP + row * (CELL + GAP);
    svg.append(s("text", { x: LABELS - 10, y: y + CELL / 2 + 4, "text-anchor": "end", class: "row-name" }, metric.short));
    shown.forEach((column, place) => svg.append(cell(doc, metric, badness[row], column, LABELS + place * step, y, step)));
  });
  svg.append(...begins(doc, shown, step, height), ...names(doc, shown, step, height));
  const outline = s("rect", { class: "outline", y: TOP - 3, height: MAIN_METRICS.length * (CELL + GAP) + 4, width: Math.max(step, 4), visibility: "hidden" });
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
    outline.setAttribute("x", String(LABELS + place * step - 1));
  };
  return { svg, show };
}

function cell(doc: Diagnosis, metric: Metric, badness: Badness, column: Column, x: number, y: number, step: number): SVGRectElement {
  const layer = worst(doc, badness, column);
  const value = metric.measured(doc.layers[layer]);
  const bad = badness(doc.layers[layer]);
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

type Badness = (layer: Layer) => number | null;

/** From -1 (too small) over 0 (fine) to 1 (bad); null where the metric is undefined. */
function scale(metric: Metric, layers: Layer[]): Badness {
  // By how much is left, as the rules of the verdict see it: a rank of half the possible is still healthy.
  if (metric.axis === "share") {
    return (layer) => bounded(stored(metric, layer), (value) => 1 - Math.log(value) / Math.log(Math.max(2, possibleRank(layer))));
  }
  if (!metric.logarithmic) return (layer) => bounded(metric.measured(layer), (value) => -Math.log10(Math.max(1e-3, 1 - Math.abs(value))) / 3);
  const weights = layers.filter((layer) => layer.depth !== null && layer.gradient_norm);
  const reference = metric.key === "gradient_norm" ? (weights.at(-1)?.gradient_norm ?? 1) : 1;
  const decades = 4; // at which a scale is as bad as it gets
  return (layer) => {
    const value = metric.measured(layer);
    if (value === null) return null;
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
    const bad = Math.abs(badness(doc.layers[index]) ?? -1);
    if (bad > most) [chosen, most] = [index, bad];
  }
  return chosen;
}

function begins(doc: Diagnosis, shown: Column[], step: number, height: number): SVGElement[] {
  const first = firstSick(doc);
  if (first === null) return [];
  const place = shown.findIndex((column) => column.start <= first && first < column.stop);
  const x = LABELS + (place + 0.5) * step;
  const words = `${marks(doc).get(first)![0]} begins at ${shortened(layerName(doc.layers[first]), 40)}`;
  const end = place > shown.length / 2;
  return [
    s("line", { x1: x, x2: x, y1: TOP - 8, y2: height - 18, class: "marker" }),
    s("path", { d: `M${x - 5},${TOP - 12}h10l-5,8z`, class: "marker-head" }),
    s("text", { x: end ? x - 9 : x + 9, y: TOP - 8, "text-anchor": end ? "end" : "start", class: "marker-words" }, words),
  ];
}

/** A name below the first of every few columns, and what a fold holds. */
function names(doc: Diagnosis, shown: Column[], step: number, height: number): SVGElement[] {
  const result: SVGElement[] = [];
  let free = LABELS;
  for (let place = 0; place < shown.length; place++) {
    const column = shown[place];
    const x = LABELS + place * step;
    if (column.folded && shown[place - 1]?.folded) continue;
    let last = place;
    while (column.folded && shown[last + 1]?.folded) last++;
    const wide = (last - place + 1) * step;
    if (column.folded) result.push(s("path", { d: `M${x},${height - 15}v3h${wide - 2}v-3`, class: "bracket" }));
    if (x < free) continue;
    const text = column.folded ? `${shown[last].stop - column.start} layers` : shortened(layerName(doc.layers[column.start]), 20);
    const room = LABELS + shown.length * step - x;
    if (text.length * 6 > Math.max(room, wide)) continue;
    result.push(s("text", { x: column.folded ? x + wide / 2 : x, y: height - 2, "text-anchor": column.folded ? "middle" : "start", class: "tick" }, text));
    free = x + (column.folded ? Math.max(wide, text.length * 6) : text.length * 6.4) + 10;
  }
  return result;
}

function reading(layer: Layer, index: number, layers: number): Node[] {
  const parts: Node[] = [h("b", {}, `${index + 1}/${layers} `), h("code", {}, shortened(layerName(layer), 60)), ` ${layer.kind}`].map((part) =>
    part instanceof Node ? part : document.createTextNode(part),
  );
  for (const metric of MAIN_METRICS) parts.push(h("span", {}, h("i", {}, ` ${metric.short} `), reads(metric, layer)));
  return parts;
}

function hint(doc: Diagnosis): Node {
  const first = firstSick(doc);
  const start = first === null ? "Choose a layer" : `Choose a layer, such as number ${first + 1}`;
  return document.createTextNode(`${start}: click, or move with the arrow keys and press Enter.`);
}

function legend(): HTMLElement {
  const swatch = (kind: string, t: number) => {
    const box = s("svg", { class: "icon", viewBox: "0 0 16 16" }, s("rect", { x: 1, y: 1, width: 14, height: 14, class: `cell ${kind}` }));
    (box.firstChild as SVGElement).style.setProperty("--t", `${t}%`);
    return box;
  };
  return h(
    "p",
    { class: "legend" },
    h("span", {}, swatch("high", 0), "fine"),
    h("span", {}, swatch("high", 100), "one direction, or 10⁴ times too large"),
    h("span", {}, swatch("low", 100), "10⁴ times too small"),
    h("span", {}, swatch("undefined", 0), "undefined"),
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
