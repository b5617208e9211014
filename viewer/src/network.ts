// Everything about one network, in the order in which it is asked: what, where, how, why, what to do, by what means.
import { card } from "./card";
import type { Diagnosis, Finding, Known } from "./documents";
import { deeper, h, icon, section, table } from "./elements";
import { glossary, sentence, term } from "./explain";
import { inside } from "./inside";
import { layersTable } from "./layers";
import { nextSteps } from "./next";
import { download, fold, sources } from "./page";
import { plane } from "./plane";
import { mended, prescriptions } from "./prescriptions";
import { profiles } from "./profiles";
import { count, expects, factor, firstSick, findings, fixed, growth, growthSentence, interval, isLogarithm, layerName, look, marks, measure, METRICS, possibleRank, printable, quotedLayer, reads, symptomWords, UNDEFINED, unitWords, view } from "./reading";
import { residual } from "./residual";
import { Selection } from "./selection";
import { strip } from "./strip";

interface Within {
  choose?: (index: number) => void; // another one of the networks
  change?: HTMLElement | null; // what a fix did, shown after what is to be changed
  below?: boolean; // whether the network has a heading of its own above it
}

export function network(docs: Diagnosis[], index: number, cloud: Known[], { choose = () => {}, change = null, below = false }: Within = {}): HTMLElement {
  const doc = docs[index];
  const selection = new Selection(doc.layers.length);
  document.onkeydown = (event) => {
    if (event.key === "Escape" && selection.choice.open) selection.key("Escape");
  };
  const root = h("article", { class: "network", id: `network-${index + 1}` });
  const add = (parts: (HTMLElement | null)[]) => root.append(...parts.filter((part) => part !== null).map((part) => (below ? deeper(part) : part)));
  add([banner(doc, selection), change === null ? nextSteps(doc) : null, facts(doc), strip(doc, selection)]);
  // After what is above has been drawn, and can be used already.
  setTimeout(() => {
    add([profiles(doc, selection), plane(docs, index, cloud, choose), card(doc, selection), theory(doc), checks(doc), prescriptions(doc), change, inside(doc), residual(doc), layersTable(doc, selection), glossary(), method(doc, index)]);
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
          `${marks(doc).get(first)!.map(symptomWords).join(", ")} from `,
          h("button", { type: "button", class: "link", onclick: () => selection.choose(first, true) }, h("code", {}, layerName(layer))),
          ` on, module call ${first + 1} of ${doc.layers.length} (${printable(layer.kind)}, ${layer.shape.join("×")})`,
        );
  return h(
    "div",
    { class: `banner ${look(doc.verdict)}` },
    h("span", { class: "verdict" }, icon(look(doc.verdict)), doc.verdict),
    h("div", {}, h("p", {}, printable(doc.summary)), where, fix === null ? null : h("p", { class: "where" }, `fixed by ${fix}`)),
  );
}

/** A number with its label, and below it what it means. */
interface Fact {
  label: string | HTMLElement;
  value: string;
  note: string | HTMLElement;
}

function facts(doc: Diagnosis): HTMLElement {
  const last = quotedLayer(doc);
  const ended = last === null ? null : view(last, "effective_rank");
  const risk = doc.risk?.value ?? null;
  const placed = (key: string) => h("span", {}, term(key), ...(last === null ? [] : [" at ", h("code", {}, layerName(last))]));
  const entries: (Fact | null)[] = [
    risk === null ? null : { label: term("risk"), value: `${Math.round(100 * risk)} %`, note: `Fitted to ${doc.risk!.networks} networks that were diagnosed, then trained; the verdict is right for ${Math.round(100 * doc.risk!.accuracy)} % of ${doc.risk!.tested_on} others.` },
    { label: placed("gap"), value: fixed(doc.gap), note: sentence("gap") },
    { label: placed("effective_rank"), value: last === null || ended === null ? UNDEFINED : `${ended.toFixed(1)} of ${possibleRank(last)}`, note: sentence("effective_rank") },
    { label: term("gradient_growth", "gradient, from output to input"), value: factor(growth(doc)), note: growthSentence(doc) },
    doc.seeds ? { label: `verdicts of ${doc.seeds.seeds.length} seeds`, value: tally(doc.seeds.verdicts), note: "The same network with other random weights." } : null,
  ];
  const shown = entries.filter((one) => one !== null);
  return h(
    "div",
    { class: "facts-and-size" },
    h("dl", { class: "facts" }, ...shown.map(({ label, value, note }) => h("div", {}, h("dt", {}, label), h("dd", {}, value), h("dd", { class: "note" }, note)))),
    h("p", { class: "quiet size" }, `${count(doc.parameters)} parameters, ${doc.samples} samples, diagnosed in ${doc.seconds.toFixed(1)} seconds.`),
  );
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
  const predicted = METRICS.filter((metric) => metric.is_predicted && metric.key !== "gradient_norm");
  const rows: (string | HTMLElement)[][] = layer === null ? [] : predicted.map((metric) => [term(metric.key), expects(metric, layer), reads(metric, layer)]);
  rows.push([term("slope"), factor(doc.prediction.slope), factor(doc.slope.value)]);
  return section(
    "Theory",
    "theory",
    layer && h("p", {}, "Predicted and measured at ", h("code", {}, layerName(layer)), ", the last layer where samples can have the most directions."),
    table(["quantity", "predicted", "measured"], rows, new Set([1, 2]), "compared"),
    sources(doc.prediction.sources),
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
      h("span", {}, printable(one.check), h("small", {}, symptomWords(one.symptom))),
      printable(one.reason),
      h("span", {}, one.layer === null ? "" : h("code", {}, printable(one.layer)), cause(one)),
      measuredCell(one),
      measure(one.threshold, one.unit),
    ];
  });
  return table(["state", "check", "result", "begins at", "measured", "limit"], rows, new Set([4, 5]), "checks");
}

/** The module to change, where it is another than the one at which the symptom begins. */
function cause({ cause, layer }: Finding): HTMLElement | null {
  return cause === undefined || cause === null || cause === layer ? null : h("small", {}, "cause: ", h("code", {}, printable(cause)));
}

function measuredCell({ value, standard_error: error, unit }: Finding): HTMLElement {
  const small = unit && h("small", {}, unitWords(unit));
  if (!isLogarithm(unit)) return h("span", {}, measure(value, unit), error === null ? "" : ` ± ${measure(error, unit)}`, small);
  const around = interval(value, error);
  return h("span", {}, measure(value, unit), around && h("small", {}, `± 1 s.e.: ${around}`), small);
}

function method(doc: Diagnosis, index: number): HTMLElement {
  const source = doc.gradient_of ? `the gradient is of ${printable(doc.gradient_of)}` : "nothing in the output could be differentiated";
  return section(
    "Method",
    "method",
    h("p", {}, `One forward and one backward pass on ${doc.samples} samples; ${source}. A dash is an undefined number.`),
    fold("Notes", doc.notes.map(printable), true),
    fold(
      `${doc.unobserved.length} unobserved modules`,
      doc.unobserved.map((one) => h("span", {}, h("code", {}, printable(one.name) || "(model)"), `: ${printable(one.reason)}`)),
    ),
    fold("Environment", Object.entries(doc.environment).map(([name, value]) => `${printable(name)} ${printable(value)}`)),
    h("p", {}, h("button", { type: "button", class: "download", onclick: () => download(doc, String(index + 1)) }, "Download JSON")),
  );
}
