// Every layer as a table: modules that repeat are one row by name, such as model.layers.[0–31].mlp.up_proj, and open.
import type { Diagnosis, Layer } from "./documents";
import { h, section } from "./elements";
import { term } from "./explain";
import { layerName, marks, MAIN_METRICS, type Metric, printable, reads, symptomWords } from "./reading";
import type { Selection } from "./selection";

const MANY = 60; // rows, beyond which the table is opened on demand

/** Layers whose names differ in numbers only, of one kind and one shape. */
export interface Group {
  name: string;
  members: number[];
}

/** Rows by name in the order of their first layer; one number of a name becomes a range, and then another one. */
export function groups(layers: Layer[]): Group[] {
  const alike = (index: number) => `${layers[index].kind}|${layers[index].shape.join()}|${layers[index].call}`;
  const single = layers.map((layer, index): Group => ({ name: layerName(layer), members: [index] }));
  return merged(merged(single, alike), alike);
}

function merged(rows: Group[], alike: (index: number) => string): Group[] {
  const candidates = rows.map(({ name, members }) => {
    const parts = name.split(".");
    const kind = `${alike(members[0])}|${members.length}`;
    return parts.flatMap((part, place) => (/^\d+$/.test(part) ? [{ place, key: `${renamed(name, place, "#")}|${kind}` }] : []));
  });
  const counts = new Map<string, number>();
  for (const { key } of candidates.flat()) counts.set(key, (counts.get(key) ?? 0) + 1);
  const found = new Map<string, { place: number; rows: Group[] }>();
  rows.forEach((row, index) => {
    const best = candidates[index].reduce<{ place: number; key: string } | null>((a, b) => (a && counts.get(a.key)! >= counts.get(b.key)! ? a : b), null);
    const key = best?.key ?? `single ${index}`;
    if (!found.has(key)) found.set(key, { place: best?.place ?? -1, rows: [] });
    found.get(key)!.rows.push(row);
  });
  return [...found.values()].map(({ place, rows: same }) => {
    if (same.length === 1) return same[0];
    const numbers = same.map((row) => Number(row.name.split(".")[place]));
    return { name: renamed(same[0].name, place, rangeOf(numbers)), members: same.flatMap((row) => row.members) };
  });
}

function renamed(name: string, place: number, part: string): string {
  return name.split(".").map((old, index) => (index === place ? part : old)).join(".");
}

function rangeOf(numbers: number[]): string {
  const [first, second] = numbers;
  const last = numbers[numbers.length - 1];
  if (numbers.length === last - first + 1) return `[${first}–${last}]`;
  return numbers.length < 4 ? `[${numbers.join(", ")}]` : `[${first}, ${second}, …, ${last}]`;
}

export function layersTable(doc: Diagnosis, selection: Selection): HTMLElement | null {
  if (!doc.layers.length) return null;
  const rows = groups(doc.layers);
  const repeated = rows.some((row) => row.members.length > 1);
  const intro = repeated ? h("p", { class: "quiet" }, "Modules that repeat share a row: its numbers are those of the first and of the last one. Open a row for those between.") : null;
  const all: All = { doc, begins: marks(doc), selection };
  const table = () => filled(all, rows);
  if (rows.length <= MANY) return section("Layers by name", "layers", intro, table());
  const details = h("details", {}, h("summary", {}, `All ${doc.layers.length} layers as a table`));
  details.addEventListener("toggle", () => {
    if (!details.querySelector("table")) details.append(table());
  });
  return section("Layers by name", "layers", intro, details);
}

/** What every row needs; where symptoms begin is found once for all of them. */
interface All {
  doc: Diagnosis;
  begins: ReturnType<typeof marks>;
  selection: Selection;
}

function filled(all: All, rows: Group[]): HTMLElement {
  const heads = ["layer", "kind, shape", ...MAIN_METRICS.map((metric) => term(metric.key, metric.short)), "status"];
  const head = h("tr", {}, ...heads.map((one, place) => h("th", { scope: "col", class: place > 1 && place < heads.length - 1 ? "n" : null }, one)));
  const body = h("tbody", {}, ...rows.map((group) => (group.members.length > 1 ? groupRow(all, group) : memberRow(all, group.members[0]))));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "table of layers" },
    h("table", { class: "all-layers" }, h("thead", {}, head), body),
  );
}

function groupRow(all: All, { name, members }: Group): HTMLElement {
  const layers = members.map((index) => all.doc.layers[index]);
  let shown: HTMLElement[] = [];
  const button = h("button", { type: "button", class: "link opens", "aria-expanded": "false" }, h("code", {}, name), h("small", {}, `${members.length} modules`));
  const row = cellsOf(button, layers[0], MAIN_METRICS.map((metric) => fromTo(metric, layers)), statusOf(all, members));
  button.addEventListener("click", () => {
    const open = shown.length === 0;
    button.setAttribute("aria-expanded", String(open));
    for (const one of shown) one.remove();
    shown = open ? members.map((index) => memberRow(all, index)) : [];
    for (const one of shown) one.classList.add("member");
    row.after(...shown);
  });
  return row;
}

function memberRow(all: All, index: number): HTMLElement {
  const layer = all.doc.layers[index];
  const button = h("button", { type: "button", class: "link", "data-row": index, onclick: () => all.selection.choose(index, true) }, h("code", {}, layerName(layer)));
  return cellsOf(button, layer, MAIN_METRICS.map((metric) => reads(metric, layer)), statusOf(all, [index]));
}

function cellsOf(name: HTMLElement, layer: Layer, numbers: string[], status: HTMLElement | string): HTMLElement {
  const kind = h("td", {}, printable(layer.kind), h("small", {}, layer.shape.join("×") || "scalar"));
  return h("tr", {}, h("td", {}, name), kind, ...numbers.map((one) => h("td", { class: "n" }, one)), h("td", {}, status));
}

function fromTo(metric: Metric, layers: Layer[]): string {
  const [first, last] = [reads(metric, layers[0]), reads(metric, layers[layers.length - 1])];
  if (first === last) return first;
  return metric.written === "rank" ? `${first.split(" of ")[0]} → ${last}` : `${first} → ${last}`;
}

function statusOf({ doc, begins }: All, members: number[]): HTMLElement | string {
  const found = members.filter((index) => begins.has(index));
  if (found.length) {
    const from = (index: number) => (members.length > 1 ? layerName(doc.layers[index]) : "here");
    return h("strong", {}, found.map((index) => `◀ ${begins.get(index)!.map(symptomWords).join(", ")} from ${from(index)} on`).join("; "));
  }
  return [...new Set(members.map((index) => doc.layers[index].status))].join(", ");
}
