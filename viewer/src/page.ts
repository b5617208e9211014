// What the pages of all kinds are made of: an answer, facts, lists that fold, sources, and how the numbers were made.
import type { Environment, Source } from "./types";
import { h, icon, section } from "./elements";
import { look, printable } from "./reading";

type Part = Node | string | null;

/** The answer in a frame of its color: what is said first on every page. */
export function answer(kind: string, sign: Node, ...said: Part[]): HTMLElement {
  return h("div", { class: `banner ${kind}` }, sign, h("div", {}, ...said.map((one) => (typeof one === "string" ? h("p", {}, one) : one))));
}

export function verdict(word: string): HTMLElement {
  return h("span", { class: "verdict" }, icon(look(word)), word);
}

export function facts(entries: [string, Node | string][]): HTMLElement {
  return h("dl", { class: "facts" }, ...entries.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A list under a title that folds it away; null if it is empty. */
export function fold(title: string, items: (Node | string)[], open = false): HTMLElement | null {
  return items.length ? h("details", { open }, h("summary", {}, title), h("ul", {}, ...items.map((item) => h("li", {}, item)))) : null;
}

/** A name and a small explanation under it, for the cell of a table. */
export function explained(name: string, small: string): HTMLElement {
  return h("span", {}, printable(name), small ? h("small", {}, printable(small)) : null);
}

export function sources(statements: Source[]): HTMLElement {
  return h("ul", { class: "sources" }, ...statements.map((one) => h("li", {}, h("b", {}, printable(one.source)), `, assuming ${printable(one.assumes)}`)));
}

export function code(text: string): HTMLElement {
  return h("pre", { tabindex: 0 }, h("code", {}, text.split("\n").map(printable).join("\n")));
}

/** What stands at the end of every page: notes, the environment, the document itself. */
export function ending(doc: { environment: Environment }, name: string, ...parts: Part[]): HTMLElement {
  return section(
    "Method",
    `method-of-${name}`,
    ...parts,
    fold("Environment", Object.entries(doc.environment).map(([key, value]) => `${printable(key)} ${printable(value)}`)),
    h("p", {}, h("button", { type: "button", class: "download", onclick: () => download(doc, name) }, "Download JSON")),
  );
}

export function download(doc: unknown, name: string): void {
  const blob = new Blob([`${JSON.stringify(doc, null, 1)}\n`], { type: "application/json" });
  const link = h("a", { href: URL.createObjectURL(blob), download: `orthoscope-${name}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
