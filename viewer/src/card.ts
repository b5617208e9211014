// The card of one layer: its numbers beside theory's, and its pictures.
import type { Diagnosis, Layer } from "./documents";
import { h, table } from "./elements";
import { term } from "./explain";
import { expects, layerName, marks, METRICS, printable, rank, reads, symptomWords, UNDEFINED } from "./reading";
import type { Choice, Selection } from "./selection";
import { gram, overlaps, spectrum, weightSpectrum } from "./spectra";

export function card(doc: Diagnosis, selection: Selection): HTMLElement {
  const panel = h("aside", { class: "card", id: "card", role: "dialog", "aria-label": "layer card", tabindex: -1, hidden: true });
  let before: Element | null = null;
  let shown: Choice = { layer: null, open: false };
  selection.onChange((choice) => {
    const opened = choice.open && !shown.open;
    const closed = !choice.open && shown.open;
    shown = choice;
    panel.hidden = !choice.open;
    if (choice.open) panel.replaceChildren(...content(doc, choice.layer!, selection));
    if (opened) {
      before = document.activeElement;
      panel.focus({ preventScroll: true });
    }
    if (closed && before instanceof HTMLElement) before.focus({ preventScroll: true });
  });
  panel.addEventListener("keydown", (event) => {
    const scrolls = ["ArrowUp", "ArrowDown", "PageUp", "PageDown", " ", "Enter"].includes(event.key);
    if (!scrolls && selection.key(event.key)) event.preventDefault();
  });
  return panel;
}

function content(doc: Diagnosis, index: number, selection: Selection): HTMLElement[] {
  const layer = doc.layers[index];
  const button = (label: string, text: string, act: () => void, off = false) =>
    h("button", { type: "button", "aria-label": label, title: label, onclick: act, disabled: off }, text);
  const again = (step: number) => () => {
    selection.move(step);
    document.getElementById("card")?.focus({ preventScroll: true });
  };
  const symptoms = marks(doc).get(index);
  return [
    h(
      "header",
      {},
      h("p", { class: "quiet" }, `layer ${index + 1} of ${doc.layers.length}`),
      h(
        "nav",
        {},
        button("previous layer", "←", again(-1), index === 0),
        button("next layer", "→", again(1), index === doc.layers.length - 1),
        button("close", "✕", () => selection.choose(index, false)),
      ),
    ),
    h("h3", { class: "minor" }, h("code", {}, layerName(layer))),
    h("p", { class: "quiet" }, `${printable(layer.kind)}, ${layer.shape.join("×") || "scalar"}${layer.depth === null ? "" : `, weight layer ${layer.depth}`}, ${layer.status}`),
    ...(symptoms ? [h("p", { class: "begins" }, `${symptoms.map(symptomWords).join(", ")} from here on`)] : []),
    ...(layer.also.length ? [h("p", { class: "quiet" }, `passed on unchanged by ${layer.also.map((name) => printable(name) || "(model)").join(", ")}`)] : []),
    numbers(layer),
    ...pictures(layer),
  ];
}

function numbers(layer: Layer): HTMLElement {
  const rows: [string | HTMLElement, string, string][] = METRICS.map((metric) => [term(metric.key), reads(metric, layer), expects(metric, layer)]);
  if (layer.token_view) rows.push(["effective rank of tokens", rank(layer.token_view.effective_rank), UNDEFINED]);
  return table(["quantity", "measured", "theory"], rows, new Set([1, 2]), "numbers");
}

function pictures(layer: Layer): HTMLElement[] {
  const { picture, weight_spectrum: weight } = layer;
  const drawn = picture ? [spectrum(layer, picture), overlaps(picture), gram(picture)] : [];
  if (weight) drawn.push(weightSpectrum(weight));
  return drawn.length ? drawn : [h("p", { class: "quiet" }, "No picture of this layer was kept.")];
}
