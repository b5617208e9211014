// Elements by function call. Text only ever becomes text: nothing here, or anywhere in the viewer, parses markup.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;

function filled<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Circle, diamond, triangle or square: a verdict must be told without color. */
export function symbol(look: string, x: number, y: number, size: number): SVGElement {
  if (look === "healthy") return s("circle", { cx: x, cy: y, r: size, class: look });
  if (look === "unknown") {
    return s("path", { d: `M${x},${y - 1.3 * size}l${1.3 * size},${1.3 * size}l${-1.3 * size},${1.3 * size}l${-1.3 * size},${-1.3 * size}z`, class: look });
  }
  if (look === "at-risk") {
    return s("path", { d: `M${x},${y - 1.2 * size}l${1.15 * size},${2 * size}h${-2.3 * size}z`, class: look });
  }
  return s("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, class: look });
}

export function icon(look: string): SVGElement {
  return s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, symbol(look, 8, 8, 5.5));
}

/** A part of the page; a section within it has a heading one level deeper. */
export function section(title: string, id: string, ...children: Child[]): HTMLElement {
  for (const child of children) if (child instanceof HTMLElement && child.matches("section.part")) deeper(child);
  return h("section", { class: "part", id, "aria-label": title }, h("h2", { class: "title" }, title), ...children);
}

/** The same part with every heading one level deeper. */
export function deeper<E extends Element>(part: E): E {
  for (const old of part.querySelectorAll("h2, h3")) old.replaceWith(h(old.tagName === "H2" ? "h3" : "h4", { class: old.className }, ...old.childNodes));
  return part;
}

/** The words beside charts that say how they are read. */
export function howToRead(...said: Child[]): HTMLElement {
  return h("div", { class: "reading key" }, h("h3", { class: "minor" }, "How to read"), ...said.map((one) => (typeof one === "string" ? h("p", {}, one) : one)));
}

/** A link to an element of the page. In a notebook `#id` is an address of the notebook, which the frame would load. */
export function jump(id: string, words: string): HTMLAnchorElement {
  const go = (event: Event) => {
    event.preventDefault();
    const target = document.getElementById(id);
    if (!target) return;
    target.tabIndex = -1;
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  };
  return h("a", { href: `#${id}`, onclick: go }, words);
}

export function table(heads: (string | HTMLElement)[], rows: Child[][], numeric: Set<number>, look = "plain"): HTMLElement {
  const cell = (tag: "td" | "th", child: Child, index: number) =>
    h(tag, { class: numeric.has(index) ? "n" : null, scope: tag === "th" ? "col" : null }, child);
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": `table: ${heads.map((head) => (typeof head === "string" ? head : head.textContent)).join(", ")}` },
    h(
      "table",
      { class: look },
      h("thead", {}, h("tr", {}, ...heads.map((head, index) => cell("th", head, index)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((child, index) => cell("td", child, index))))),
    ),
  );
}
