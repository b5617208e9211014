// The trunk as a line over the strip, residual branches as arcs above it, each back on the trunk at a +.
import type { Branch } from "./branches";
import { s } from "./elements";
import type { Column } from "./folding";

const HEIGHT = 40; // pixels over the cells
const [UPPER, TRUNK] = [8, 28];
const SMALLEST = 7; // width of a column that has a dot of its own

export interface Lanes {
  branches: Branch[];
  height: number; // 0 where no branch is known: then the strip itself is the trunk
  closed: (layer: number) => boolean;
}

export function lanes(branches: Branch[]): Lanes {
  const shut = new Set(branches.filter((one) => one.closed).flatMap((one) => Array.from({ length: one.stop - one.start }, (_, k) => one.start + k)));
  return { branches, height: branches.length ? HEIGHT : 0, closed: (layer) => shut.has(layer) };
}

/** `top` is where the track begins; columns are `step` wide. */
export function track({ branches }: Lanes, shown: Column[], step: number, top: number): SVGElement[] {
  if (!branches.length) return [];
  const [upper, trunk] = [top + UPPER, top + TRUNK];
  const result: SVGElement[] = [s("line", { x1: 0, x2: shown.length * step, y1: trunk, y2: trunk, class: "trunk" })];
  const place = new Map<number, number>(); // a layer that has a column of its own, or the first of one
  shown.forEach((column, index) => place.set(column.start, index));
  const raised = new Set<number>();
  for (const branch of branches) {
    const [first, last] = [place.get(branch.start), place.get(branch.stop - 1)];
    if (first === undefined || last === undefined || last - first !== branch.stop - 1 - branch.start) continue; // folded
    for (let index = first; index <= last; index++) raised.add(index);
    const [from, to] = [first * step, (last + 1) * step];
    const bend = Math.min(step / 2, 10);
    const path = `M${from},${trunk}C${from + bend},${trunk} ${from},${upper} ${from + bend},${upper}H${to - bend}C${to},${upper} ${to - bend},${trunk} ${to},${trunk}`;
    result.push(
      s("path", { d: path, class: branch.closed ? "branch closed" : "branch", "data-branch": branch.block, "data-from": branch.start, "data-to": branch.stop - 1 }),
      ...(step < SMALLEST ? [] : [s("circle", { cx: to - 1, cy: trunk, r: 5, class: "sum" }), s("path", { d: `M${to - 4},${trunk}h6m-3,-3v6`, class: "plus" })]),
    );
  }
  if (step < SMALLEST) return result;
  shown.forEach((column, index) => {
    const lane = raised.has(index) ? "branch" : "trunk";
    const y = raised.has(index) ? upper : trunk;
    if (column.folded) return;
    result.push(s("circle", { cx: (index + 0.5) * step - 0.75, cy: y, r: 2.5, class: "stop", "data-layer": column.start, "data-lane": lane }));
  });
  return result;
}
