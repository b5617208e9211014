// A small chart: axes, lines with gaps, bands; x is a layer or a rank, y linear or logarithmic.
import { scaleLinear, scaleLog } from "d3-scale";
import { area, line } from "d3-shape";
import { s } from "./elements";
import { tenToThe } from "./reading";

export type Point = [number, number | null];

export interface Line {
  points: Point[];
  look: string;
  name: string;
  dots?: boolean; // one a point, each with its layer (x - 1) and value as data
}

export interface Band {
  points: [number, number | null, number | null][];
  look: string;
}

export interface Marker {
  x: number;
  words: string; // what begins there
}

export interface Chart {
  width: number;
  height: number;
  x: [number, number];
  y: [number, number];
  logarithmic: boolean;
  lines: Line[];
  bands?: Band[];
  marker?: Marker | null;
  tick?: (value: number) => string; // how a height is written
  xName?: string;
  yName?: string;
  title: string;
}

export interface Scales {
  svg: SVGSVGElement;
  x: (value: number) => number;
  y: (value: number) => number | null;
  invert: (pixel: number) => number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const [LEFT, RIGHT, TOP, BOTTOM] = [40, 8, 10, 24];

export function chart(spec: Chart): Scales {
  const { width, height } = spec;
  const [left, right, top, bottom] = [LEFT, width - RIGHT, TOP, height - (spec.xName ? BOTTOM + 12 : BOTTOM)];
  const across = scaleLinear(spec.x, [left, right]);
  const up = (spec.logarithmic ? scaleLog() : scaleLinear()).domain(spec.y).range([bottom, top]).clamp(false);
  const y = (value: number): number | null => {
    if (spec.logarithmic && !(value > 0)) return null;
    // Far outside the frame is as good as just outside, and keeps pixels finite.
    return Math.max(top - height, Math.min(bottom + height, up(Math.max(-1e300, Math.min(1e300, value)))));
  };
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": spec.title });
  const id = `clip-${++clips}`;
  svg.append(s("clipPath", { id }, s("rect", { x: left - 1, y: top - 4, width: right - left + 2, height: bottom - top + 8 })));
  for (const tick of upTicks(spec)) {
    const at = y(tick)!;
    svg.append(s("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }));
    svg.append(s("text", { x: left - 6, y: at + 4, "text-anchor": "end", class: "tick" }, spec.tick ? spec.tick(tick) : tickLabel(tick, spec.logarithmic)));
  }
  for (const tick of across.ticks(Math.max(2, Math.floor(width / 90))).filter(Number.isInteger)) {
    svg.append(s("text", { x: across(tick), y: bottom + 15, "text-anchor": "middle", class: "tick" }, tick));
  }
  if (spec.xName) svg.append(s("text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle", class: "unit" }, spec.xName));
  if (spec.yName) svg.append(s("text", { x: left + 5, y: top + 7, class: "unit y-name" }, spec.yName));
  const body = s("g", { "clip-path": `url(#${id})` });
  for (const band of spec.bands ?? []) {
    const shape = area<[number, number | null, number | null]>()
      .defined((p) => p[1] !== null && p[2] !== null && y(p[1]) !== null && y(p[2]) !== null)
      .x((p) => across(p[0]))
      .y0((p) => y(p[1]!)!)
      .y1((p) => y(p[2]!)!);
    body.append(s("path", { d: shape(band.points), class: band.look }));
  }
  for (const one of spec.lines) body.append(...drawn(one, across, y));
  svg.append(body);
  if (spec.marker) svg.append(...marked(spec.marker, across(spec.marker.x), left, right, top, bottom));
  return { svg, x: across, y, invert: (pixel) => across.invert(pixel), left, right, top, bottom };
}

let clips = 0;

/** A dashed line with words on the side that has more room. */
function marked(marker: Marker, x: number, left: number, right: number, top: number, bottom: number): SVGElement[] {
  const after = x < (left + right) / 2;
  return [
    s("line", { x1: x, x2: x, y1: top, y2: bottom, class: "marker", "data-marker": marker.x }),
    s("path", { d: `M${x - 4},${top - 6}h8l-4,6z`, class: "marker-head" }),
    s("text", { x: x + (after ? 7 : -7), y: top + 5, "text-anchor": after ? "start" : "end", class: "marker-words" }, marker.words),
  ];
}

/** The stroke of a line, for a legend. */
export function stroke(look: string): SVGSVGElement {
  return s("svg", { class: "stroke", viewBox: "0 0 26 10", "aria-hidden": "true" }, s("path", { d: "M0,5h26", class: `line ${look}` }));
}

function drawn(one: Line, x: (value: number) => number, y: (value: number) => number | null): SVGElement[] {
  const known = (p: Point) => p[1] !== null && y(p[1]) !== null;
  const path = line<Point>()
    .defined(known)
    .x((p) => round(x(p[0])))
    .y((p) => round(y(p[1]!)!));
  const result: SVGElement[] = [s("path", { d: path(one.points) ?? "", class: `line ${one.look}`, "data-line": one.name })];
  one.points.forEach((p, i) => {
    // A line through one point is invisible.
    const alone = ![one.points[i - 1], one.points[i + 1]].some((next) => next && known(next));
    if (!known(p) || !(one.dots || alone)) return;
    const data = { "data-layer": p[0] - 1, "data-x": p[0], "data-value": p[1] };
    result.push(s("circle", { cx: round(x(p[0])), cy: round(y(p[1]!)!), r: 2, class: `dot ${one.look}`, ...data }));
  });
  return result;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}

function upTicks(spec: Chart): number[] {
  if (!spec.logarithmic) return scaleLinear(spec.y, [0, 1]).ticks(4);
  const [low, high] = spec.y.map((end) => Math.log10(end));
  const step = Math.max(1, Math.ceil((high - low) / 4));
  const ticks: number[] = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += step) ticks.push(10 ** power);
  return ticks;
}

export function tickLabel(value: number, logarithmic = false): string {
  if (!logarithmic || (value >= 0.01 && value <= 1000)) return String(Number(value.toPrecision(6))).replace("-", "−");
  return tenToThe(Math.round(Math.log10(value)));
}

/** Powers of ten around all positive values; `extra` may widen them by three decades at most. */
export function decades(values: (number | null)[], extra: (number | null)[] = []): [number, number] {
  const logs = (some: (number | null)[]) => some.filter((v): v is number => v !== null && v > 0).map(Math.log10);
  const measured = logs(values).length ? logs(values) : logs(extra);
  if (!measured.length) return [0.1, 10];
  let [low, high] = [lowest(measured), -lowest(measured.map((v) => -v))];
  for (const value of logs(extra)) {
    low = Math.min(low, Math.max(value, low - 3));
    high = Math.max(high, Math.min(value, high + 3));
  }
  low = Math.max(-300, Math.floor(low));
  high = Math.min(300, Math.ceil(high));
  return [10 ** (low === high ? low - 1 : low), 10 ** (low === high ? high + 1 : high)];
}

function lowest(values: number[]): number {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}
