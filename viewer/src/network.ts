// Everything about one network, in the order in which it is asked: what, where, how, why, what to do, by what means.
import { card } from "./card";
import type { Diagnosis, Finding, Known } from "./documents";
import { h, icon, section, table } from "./elements";
import { download } from "./page";
import { plane } from "./plane";
import { mended, prescriptions } from "./prescriptions";
import { profiles } from "./profiles";
import { count, findings, firstSick, fixed, layerName, look, MAIN_METRICS, marks, number, possibleRank, printable, quotedLayer, rank, reads, signed, significant, slope, UNDEFINED, view } from "./reading";
import { residual } from "./residual";
import { Selection } from "./selection";
import { strip } from "./strip";

/** `change` is what a fix did, shown after what is to be changed. */
export function network(docs: Diagnosis[], index: number, cloud: Known[], choose: (index: number) => void, change: HTMLElement | null = null): HTMLElement {
  const doc = docs[index];
  const selection = new Selection(doc.layers.length);
  document.onkeydown = (event) => {
    if (event.key === "Escape" && selection.choice.open) selection.key("Escape");
  };
  const root = h("article", { class: "network", id: `network-${index + 1}` });
  root.append(banner(doc, selection), facts(doc), strip(doc, selection));
  // After what is above has been drawn, and can be used already.
  setTimeout(() => {
    const later = [profiles(doc, selection), plane(docs, index, cloud, choose), card(doc, selection), theory(doc), checks(doc), prescriptions(doc), change, residual(doc), layers(doc), method(doc, index)];
    root.append(...later.filter((part) => part !== null));
    if (selection.choice.layer !== null) selection.choose(selection.choice.layer);
    root.setAttribute("data-ready", "");
  });
  return root;
}

function banner(doc: Diagnosis, selection: Selection): HTMLElement {
  const first = firstSick(doc);
  const layer = first === null ? null : doc.layers[first];
  const fix = mended(doc);
  const where =
    first === null || layer === null
      ? null
      : h(
          "p",
          { class: "where" },
          `${marks(doc).get(first)!.join(", ")} begins at `,
          h("button", { type: "button", class: "link", onclick: () => selection.choose(first, true) }, h("code", {}, layerName(layer))),
          `, module call ${first + 1} of ${doc.layers.length} (${printable(layer.kind)}, ${layer.shape.join("×")})`,
        );
  return h(
    "div",
    { class: `banner ${look(doc.verdict)}` },
    h("span", { class: "verdict" }, icon(look(doc.verdict)), doc.verdict),
    h("div", {}, h("p", {}, printable(doc.summary)), where, fix === null ? null : h("p", { class: "where" }, `mended by ${fix}`)),
  );
}

function facts(doc: Diagnosis): HTMLElement {
  const last = quotedLayer(doc);
  const ended = last === null ? null : view(last, "effective_rank");
  const entries: [string, string][] = [
    ["parameters", count(doc.parameters)],
    ["samples", String(doc.samples)],
    ["orthogonality gap", fixed(doc.gap)],
    ["effective rank at the end", last === null || ended === null ? UNDEFINED : `${ended.toFixed(1)} of ${possibleRank(last)}`],
    ["gradient slope ± s.e.", slope(doc)],
    ["seconds", doc.seconds.toFixed(1)],
  ];
  const risk = doc.risk?.value ?? null;
  if (risk !== null) entries.unshift([`risk of not training, by ${doc.risk!.networks} networks`, `${Math.round(100 * risk)} %`]);
  if (doc.seeds) entries.push([`verdicts of ${doc.seeds.seeds.length} seeds`, tally(doc.seeds.verdicts)]);
  return h("dl", { class: "facts" }, ...entries.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function tally(words: string[]): string {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, times]) => `${times} ${word.toLowerCase()}`).join(", ");
}

function theory(doc: Diagnosis): HTMLElement {
  if (doc.prediction.reason !== null) {
    return section("Theory", "theory", h("p", { class: "quiet" }, `No prediction: ${printable(doc.prediction.reason)}.`));
  }
  const layer = quotedLayer(doc);
  const rows: string[][] = [];
  if (layer) {
    const expected = layer.predicted;
    rows.push(
      ["overlap", fixed(expected?.overlap), fixed(view(layer, "overlap"))],
      ["orthogonality gap", fixed(expected?.gap), fixed(view(layer, "gap"))],
      [`effective rank of ${possibleRank(layer)}`, rank(expected?.effective_rank ?? null), rank(view(layer, "effective_rank"))],
      ["isometry gap", number(expected?.isometry_gap), layer.rank_deficient ? "rank-deficient" : number(view(layer, "isometry_gap"))],
      ["rms", number(expected?.rms), number(layer.rms)],
    );
  }
  rows.push(["gradient slope", signed(doc.prediction.slope), signed(doc.slope.value)]);
  const sources = doc.prediction.sources.map((one) => h("li", {}, h("b", {}, printable(one.source)), `, assuming ${printable(one.assumes)}`));
  return section(
    "Theory",
    "theory",
    layer && h("p", {}, "Predicted and measured at ", h("code", {}, layerName(layer)), ", the layer that speaks for the end."),
    table(["quantity", "predicted", "measured"], rows, new Set([1, 2]), "compared"),
    h("ul", { class: "sources" }, ...sources),
  );
}

function checks(doc: Diagnosis): HTMLElement {
  const clean = findings(doc, "clean");
  return section(
    "Checks",
    "checks",
    checksTable([...findings(doc, "found"), ...findings(doc, "not checked")]),
    clean.length ? h("details", { open: clean.length === doc.findings.length }, h("summary", {}, `${clean.length} checks are clean`), checksTable(clean)) : null,
  );
}

function checksTable(shown: Finding[]): HTMLElement | null {
  if (!shown.length) return null;
  const rows = shown.map((one) => {
    const risk = one.severity === "AT RISK";
    const sign = one.state === "found" ? (risk ? "▲" : "■") : one.state === "clean" ? "●" : "○";
    const kind = one.state === "found" ? (risk ? "state-risk" : "state-found") : one.state === "clean" ? "state-clean" : "quiet";
    return [
      h("span", { class: kind }, `${sign} ${one.state}${one.state === "found" ? `, ${one.severity.toLowerCase()}` : ""}`),
      h("span", {}, printable(one.check), h("small", {}, one.symptom)),
      printable(one.reason),
      one.layer === null ? "" : h("code", {}, printable(one.layer)),
      h("span", {}, significant(one.value), one.standard_error === null ? "" : ` ± ${significant(one.standard_error)}`, one.unit && h("small", {}, printable(one.unit))),
      significant(one.threshold),
    ];
  });
  return table(["state", "check", "result", "begins at", "measured", "limit"], rows, new Set([4, 5]), "checks");
}

/** Every layer as a table, made when it is opened: for screen readers, for search, for paper. */
function layers(doc: Diagnosis): HTMLElement | null {
  if (!doc.layers.length) return null;
  const begins = marks(doc);
  const fill = () => {
    const rows = doc.layers.map((layer, index) => [
      index + 1,
      layerName(layer),
      printable(layer.kind),
      layer.shape.join("×"),
      ...MAIN_METRICS.map((metric) => reads(metric, layer)),
      begins.has(index) ? h("strong", {}, `◀ ${begins.get(index)!.join(", ")} begins`) : layer.status,
    ]);
    return table(["#", "layer", "kind", "shape", ...MAIN_METRICS.map((metric) => metric.short), "status"], rows, new Set([0, 4, 5, 6, 7, 8]), "all-layers");
  };
  const details = h("details", {}, h("summary", {}, `All ${doc.layers.length} layers as a table`));
  const open = () => {
    if (!details.querySelector("table")) details.append(fill());
  };
  details.addEventListener("toggle", open);
  return details;
}

function method(doc: Diagnosis, index: number): HTMLElement {
  const source = doc.gradient_of ? `the gradient is of ${printable(doc.gradient_of)}` : "nothing in the output could be differentiated";
  const definitions: [string, string][] = [
    ["orthogonality gap", "‖HHᵀ/‖H‖² − I/n‖ in Frobenius norms, with the n samples of a layer as the rows of H"],
    ["effective rank", "exponential of the entropy of the singular values, as shares of their sum; around the mean: with the batch mean taken out first"],
    ["overlap", "mean cosine over pairs of samples"],
    ["isometry gap", "log of the arithmetic over the geometric mean of the squared singular values"],
    ["rms", "over all entries of the output"],
    ["gradient norm", "of the gradient with respect to the output"],
    ["gradient slope", "growth of the log of that norm per weight layer toward the input, by least squares"],
  ];
  const list = (title: string, items: (Node | string)[], open = false) =>
    items.length ? h("details", { open }, h("summary", {}, title), h("ul", {}, ...items.map((item) => h("li", {}, item)))) : null;
  return section(
    "Method",
    "method",
    h("p", {}, `One forward and one backward pass on ${doc.samples} samples; ${source}. A dash is an undefined number.`),
    h("dl", { class: "definitions" }, ...definitions.flatMap(([name, what]) => [h("dt", {}, name), h("dd", {}, what)])),
    list("Notes", doc.notes.map(printable), true),
    list(
      `${doc.unobserved.length} unobserved modules`,
      doc.unobserved.map((one) => h("span", {}, h("code", {}, printable(one.name) || "(model)"), `: ${printable(one.reason)}`)),
    ),
    list("Environment", Object.entries(doc.environment).map(([name, value]) => `${printable(name)} ${printable(value)}`)),
    h("p", {}, h("button", { type: "button", class: "download", onclick: () => download(doc, String(index + 1)) }, "Download JSON")),
  );
}
