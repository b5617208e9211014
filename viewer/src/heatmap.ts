// A matrix as a grid of colors with its scale; arrow keys and the mouse read it cell by cell.
import { h, s } from "./elements";

const SIDE = 300;
const MARGIN = 26;
const MOST = 96; // rows and columns that are drawn; of more, evenly spaced ones

export interface Heatmap {
  title: string;
  explanation: string;
  name: string;
  matrix: (number | null)[][]; // 0 has the color, 1 and beyond are pale, null is crossed out; row 0 is at the bottom
  labels: string[];
  rows: string; // what a row is, in words before its label
  columns: string;
  low: string; // the ends of the scale, in words
  high: string;
  write: (value: number | null) => string;
}

export function heatmap(spec: Heatmap): HTMLElement {
  const step = Math.max(1, Math.ceil(spec.matrix.length / MOST));
  const kept = spec.matrix.map((_, index) => index).filter((index) => index % step === 0);
  const side = SIDE / kept.length;
  const said = h("output", { class: "said" });
  const svg = s("svg", {
    viewBox: `${-MARGIN} -2 ${SIDE + MARGIN + 2} ${SIDE + MARGIN + 2}`,
    class: "chart heatmap",
    role: "img",
    tabindex: 0,
    "data-figure": spec.name,
    "aria-label": `${spec.title}; arrow keys read it`,
  });
  const at = (row: number, column: number) => [column * side, SIDE - (row + 1) * side];
  kept.forEach((i, row) =>
    kept.forEach((j, column) => {
      const value = spec.matrix[i][j];
      const [x, y] = at(row, column);
      const place = { "data-row": i, "data-column": j, "data-value": value };
      if (value === null) svg.append(s("path", { d: `M${x},${y}l${side},${side}m0,${-side}l${-side},${side}`, class: "crossed", ...place }));
      else {
        const rect = s("rect", { x, y, width: side + 0.1, height: side + 0.1, class: "cell low", ...place });
        rect.style.setProperty("--t", `${Math.round(100 * Math.min(1, Math.max(0, 1 - value)))}%`);
        svg.append(rect);
      }
    }),
  );
  const cursor = s("rect", { width: side, height: side, class: "outline", visibility: "hidden" });
  svg.append(s("rect", { width: SIDE, height: SIDE, class: "frame" }), cursor, ...ticks(kept, side));
  let chosen: [number, number] | null = null;
  const show = (cell: [number, number] | null) => {
    cursor.setAttribute("visibility", cell ? "visible" : "hidden");
    if (!cell) said.textContent = "";
    else {
      const [i, j] = [kept[cell[0]], kept[cell[1]]];
      const [x, y] = at(...cell);
      cursor.setAttribute("x", String(x));
      cursor.setAttribute("y", String(y));
      said.textContent = `${spec.rows} ${i + 1} ${spec.labels[i]} ${spec.columns} ${j + 1} ${spec.labels[j]}: ${spec.write(spec.matrix[i][j])}`;
    }
  };
  const within = (value: number) => Math.min(kept.length - 1, Math.max(0, value));
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const unit = (SIDE + MARGIN + 2) / box.width;
    const [x, y] = [(event.clientX - box.left) * unit - MARGIN, (event.clientY - box.top) * unit - 2];
    show([within(Math.floor((SIDE - y) / side)), within(Math.floor(x / side))]);
  });
  svg.addEventListener("mouseleave", () => show(chosen));
  svg.addEventListener("keydown", (event) => {
    const moves: Record<string, [number, number]> = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move && event.key !== "Escape") return;
    chosen = move ? (chosen ? [within(chosen[0] + move[0]), within(chosen[1] + move[1])] : [0, 0]) : null;
    show(chosen);
    event.preventDefault();
  });
  const scale = h("p", { class: "legend heat-scale" }, h("span", {}, spec.low), h("i", { class: "heat", "aria-hidden": "true" }), h("span", {}, spec.high));
  const thinned = step > 1 ? h("p", { class: "quiet" }, `every ${step}. of ${spec.matrix.length} is drawn`) : null;
  return h("figure", { class: "profile" }, h("figcaption", {}, spec.title), said, svg, scale, thinned, h("p", { class: "explained" }, spec.explanation));
}

/** Numbers of a few rows and columns, the first and the last among them. */
function ticks(kept: number[], side: number): SVGElement[] {
  const every = Math.max(1, Math.ceil(kept.length / 8));
  return kept.flatMap((index, place) => {
    if (place % every && place !== kept.length - 1) return [];
    if (place !== kept.length - 1 && kept.length - 1 - place < every) return [];
    const middle = (place + 0.5) * side;
    return [
      s("text", { x: middle, y: SIDE + 16, "text-anchor": "middle", class: "tick" }, index + 1),
      s("text", { x: -6, y: SIDE - middle + 4, "text-anchor": "end", class: "tick" }, index + 1),
    ];
  });
}
