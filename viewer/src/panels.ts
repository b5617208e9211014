// Charts over one axis. A cursor, moved by the mouse or by arrow keys, reads all of them at the same place.
import { type Band, chart, decades, type Line, type Marker, type Point, type Scales, stroke } from "./chart";
import { h, s } from "./elements";
import { factor, fixed, UNDEFINED, unitWords, written } from "./reading";
import { Selection } from "./selection";
import { QUANTITIES, type Quantity } from "./types";

const [WIDTH, HEIGHT] = [360, 200];
const DOTS = 120; // points up to which each has a dot

export interface Panel {
  title: string; // what goes up, with its unit
  explanation?: string; // one sentence: what it is, and what is good
  name: string;
  lines: Line[];
  bands?: Band[];
  y: [number, number];
  logarithmic?: boolean;
  tick?: (value: number) => string;
  write: (value: number | null) => string;
}

/** All panels in a grid, with what stands beside them; `x` is named once, under every chart. */
export function panels(figures: Panel[], xName: string, marker: Marker | null, ...beside: (Node | null)[]): HTMLElement {
  const places = [...new Set(figures.flatMap((one) => one.lines.flatMap((line) => line.points.map((p) => p[0]))))].sort((a, b) => a - b);
  const selection = new Selection(places.length);
  const x: [number, number] = [places[0] ?? 0, Math.max((places[0] ?? 0) + 1, places[places.length - 1] ?? 1)];
  const drawn = figures.map((one) => figure(one, x, xName, marker, places, selection));
  return h("div", { class: "profiles" }, ...drawn, ...beside.filter((one) => one !== null));
}

function figure(panel: Panel, x: [number, number], xName: string, marker: Marker | null, places: number[], selection: Selection): HTMLElement {
  const lines = panel.lines.map((line) => ({ ...line, dots: line.dots ?? line.points.length <= DOTS }));
  const scales = chart({
    width: WIDTH,
    height: HEIGHT,
    x,
    y: panel.y,
    logarithmic: panel.logarithmic ?? false,
    lines,
    bands: panel.bands,
    marker,
    tick: panel.tick,
    xName,
    title: `${panel.title}, by ${xName}; arrow keys read it`,
  });
  scales.svg.setAttribute("data-figure", panel.name);
  scales.svg.setAttribute("tabindex", "0");
  const said = h("output", { class: "said" });
  const along = xName.split(" ")[0].replace(",", "");
  const values = panel.lines.map((line) => new Map(line.points));
  const tell = (at: number | null) => {
    const read = panel.lines.flatMap((line, which) => {
      const value = at === null ? undefined : values[which].get(at);
      return value === undefined ? [] : [`${panel.lines.length > 1 ? `${line.name} ` : ""}${value === null ? UNDEFINED : panel.write(value)}`];
    });
    said.textContent = at === null ? "" : `${along} ${at}: ${read.join(", ")}`;
  };
  follow(scales, places, values.map((known) => (at: number) => known.get(at) ?? null), selection, false, tell);
  scales.svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") selection.choose(null);
    else if (!places.length || event.key === "Enter" || event.key === " " || !selection.key(event.key)) return;
    event.preventDefault();
  });
  const legend = lines.length > 1 ? h("p", { class: "legend" }, ...lines.map((line) => h("span", {}, stroke(line.look), line.name))) : null;
  const explained = panel.explanation ? h("p", { class: "explained" }, panel.explanation) : null;
  return h("figure", { class: "profile" }, h("figcaption", {}, panel.title), said, scales.svg, legend, explained);
}

/** A hair line at the place that is looked at, in any chart of the selection, with a dot on every line; a click may open its card. */
export function follow(
  scales: Scales,
  places: number[],
  lines: ((at: number) => number | null)[],
  selection: Selection,
  opens: boolean,
  tell: (at: number | null) => void = () => {},
): void {
  const { svg, x, y, top, bottom } = scales;
  const hair = s("line", { y1: top, y2: bottom, class: "hair", visibility: "hidden" });
  const dots = lines.map(() => s("circle", { r: 3.5, class: "hair-dot", visibility: "hidden" }));
  svg.append(hair, ...dots);
  const show = (chosen: number | null) => {
    const index = chosen ?? selection.choice.layer;
    const at = index === null ? null : places[index];
    tell(at);
    hair.setAttribute("visibility", at === null ? "hidden" : "visible");
    lines.forEach((line, which) => {
      const value = at === null ? null : line(at);
      const height = value === null ? null : y(value);
      dots[which].setAttribute("visibility", height === null ? "hidden" : "visible");
      if (at === null || height === null) return;
      dots[which].setAttribute("cx", String(x(at)));
      dots[which].setAttribute("cy", String(Math.min(bottom, Math.max(top, height))));
    });
    for (const end of at === null ? [] : ["x1", "x2"]) hair.setAttribute(end, String(x(at!)));
  };
  selection.onHover(show);
  selection.onChange(({ layer }) => show(layer));
  if (!places.length) return;
  const nearest = (event: MouseEvent) => {
    const box = svg.getBoundingClientRect();
    const wanted = scales.invert(((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width);
    return places.reduce((best, place, index) => (Math.abs(place - wanted) < Math.abs(places[best] - wanted) ? index : best), 0);
  };
  svg.addEventListener("mousemove", (event) => selection.hover(nearest(event)));
  svg.addEventListener("mouseleave", () => selection.hover(null));
  svg.addEventListener("click", (event) => selection.choose(nearest(event), opens || selection.choice.open));
}

/** A quantity of the generated table. */
export function quantity(group: Quantity["group"], key: string): Quantity {
  return QUANTITIES.find((one) => one.group === group && one.key === key)!;
}

/** The panel of one quantity: named, explained, scaled and written as the table says. */
export function panel(one: Quantity, lines: Line[], changes: Partial<Panel> = {}): Panel {
  const values = lines.flatMap((line) => line.points.map((p) => p[1]));
  const name = one.label[0].toUpperCase() + one.label.slice(1);
  const logarithmic = one.axis === "log";
  return {
    title: `${name}${one.axis === "share" ? ", share of the possible" : ""}${unitWords(one.unit) ? `, ${unitWords(one.unit)}` : ""}${logarithmic ? " (log scale)" : ""}`,
    explanation: one.explanation,
    name: one.key,
    lines,
    y: logarithmic ? decades(values) : one.axis === "linear" ? around(values, 1e-3) : unit(values),
    logarithmic,
    tick: one.written === "factor" ? factor : undefined,
    write: (value) => (one.axis === "share" ? fixed(value) : written(one, value)),
    ...changes,
  };
}

/** How charts over depth are read, on every page that has them. */
export const READ_DEPTH = "Left is the input, right the output. Healthy networks keep enough directions at any depth and hold the gradient level.";

/** What every quantity of a group is, for a legend below a table. */
export function explanations(quantities: Quantity[]): HTMLElement {
  const rows = quantities.flatMap((one) => [h("dt", {}, one.short || one.symbol || one.label), h("dd", {}, one.explanation)]);
  return h("details", {}, h("summary", {}, "What the columns mean"), h("dl", { class: "definitions" }, ...rows));
}

/** Points of a column of numbers. */
export function points(xs: number[], ys: (number | null)[]): Point[] {
  return xs.map((x, index): Point => [x, ys[index]]);
}

/** From 0 to 1, or from the half below what is negative, as a cosine may be, to what is a little above 1. */
export function unit(values: (number | null)[]): [number, number] {
  const least = values.reduce((low: number, value) => Math.min(low, value ?? 0), 0);
  // A cosine that is negative by chance needs no axis of its own.
  const most = values.reduce((high: number, value) => Math.max(high, value ?? 1), 1);
  return [Math.floor(2 * Math.max(-1, least) + 0.1) / 2, Math.min(2, most)];
}

/** Around the values, zero included; at least `least` high. */
export function around(values: (number | null)[], least = 1e-12): [number, number] {
  // The difference of numbers beyond 10³⁰⁰ may be infinite.
  const known = values.filter((value) => value !== null).map((value) => Math.max(-1e300, Math.min(1e300, value)));
  const [low, high] = [known.reduce((a, b) => Math.min(a, b), 0), known.reduce((a, b) => Math.max(a, b), 0)];
  const room = 0.08 * (high - low); // for words, and for the line itself
  return high - low >= least ? [low && low - room, high && high + room] : [low === 0 ? 0 : -least, high === 0 && low !== 0 ? 0 : least];
}
