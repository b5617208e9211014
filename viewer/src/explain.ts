// What a quantity means, where it is first read: a label that opens its sentence, and the glossary that all lead to.
import { h, jump, section } from "./elements";
import { QUANTITIES, type Quantity } from "./types";

const GROUPS = new Set(["layer", "network", "attention", "time", "experts"]);
/** What a page of a diagnosis shows: numbers of layers, of the network, and of what is inside of it. */
const SHOWN = QUANTITIES.filter(({ group, key }) => GROUPS.has(group) || (group === "depth" && key === "gradient_growth"));

function quantity(key: string): Quantity {
  return SHOWN.find((one) => one.key === key)!;
}

const NOTE = "explanation"; // the id of the one note that is open at a time

/** The label of a quantity as a button: pressed, it opens a note with what it means. */
export function term(key: string, words = quantity(key).label): HTMLElement {
  const button = h("button", { type: "button", class: "term", "data-term": key, "aria-haspopup": "dialog" }, words);
  button.addEventListener("click", () => open(button, key));
  return button;
}

/** The sentence alone, to stand below a number or a figure. */
export function sentence(key: string): HTMLElement {
  return h("p", { class: "explained" }, quantity(key).explanation);
}

function open(button: HTMLElement, key: string): void {
  document.getElementById(NOTE)?.remove();
  const { label, definition, explanation, anchor } = quantity(key);
  const entry = document.getElementById(`glossary-${anchor}`); // not on a page without a diagnosis
  const link = entry && jump(entry.id, "Glossary");
  const note = h(
    "div",
    { id: NOTE, popover: "auto", tabindex: -1, role: "dialog", "aria-label": label },
    h("b", {}, label),
    h("p", {}, explanation),
    definition && h("p", { class: "quiet" }, definition),
    link,
  );
  const close = () => note.hidePopover();
  link?.addEventListener("click", close);
  note.addEventListener("toggle", (event) => {
    if ((event as ToggleEvent).newState !== "closed") return;
    note.remove();
    removeEventListener("scroll", close);
  });
  document.body.append(note);
  note.showPopover();
  place(note, button.getBoundingClientRect());
  (link ?? note).focus({ preventScroll: true }); // so that Tab and Enter lead on, and Escape back to the label
  addEventListener("scroll", close, { passive: true });
}

/** Below the label, or above it where there is no room; never beyond an edge of the window. */
function place(note: HTMLElement, at: DOMRect): void {
  const { width, height } = note.getBoundingClientRect();
  const below = at.bottom + 6;
  note.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  note.style.top = `${below + height > innerHeight ? Math.max(8, at.top - height - 6) : below}px`;
}

export function glossary(): HTMLElement {
  const entries = SHOWN.flatMap(({ label, definition, explanation, anchor }) => [
    h("dt", { id: `glossary-${anchor}` }, label),
    h("dd", {}, explanation, definition && h("small", {}, definition)),
  ]);
  return section("Glossary", "glossary", h("dl", { class: "definitions" }, ...entries));
}
