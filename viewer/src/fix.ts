// A fix: the network as it was, what to change, and what the change did.
import { changed, comparisonParts } from "./comparison";
import type { Diagnosis, Known } from "./documents";
import { h, section } from "./elements";
import { network } from "./network";
import { code, download, fold } from "./page";
import { printable } from "./reading";
import type { FixDocument } from "./types";

export function fix(doc: FixDocument, cloud: Known[]): HTMLElement {
  return network([prescribed(doc)], 0, cloud, { change: change(doc, cloud) });
}

/** The diagnosis before, with what was prescribed: what was kept first, in its order, then what concerns this network. */
function prescribed(doc: FixDocument): Diagnosis {
  const kept = new Set(doc.steps.map((step) => step.name));
  const rest = doc.plan.filter((step) => !kept.has(step.name) && !step.outcome.startsWith("does not apply"));
  return { ...doc.comparison.before, prescriptions: [...doc.steps, ...rest] };
}

/** What was done and what it changed; one sentence where nothing was. */
function change(doc: FixDocument, cloud: Known[]): HTMLElement {
  const said = h("p", {}, printable(doc.sentence));
  const both = doc.confirmation;
  const confirmed = both ? fold("Confirmed by a short training", (["before", "after"] as const).map((when) => `${when}: ${printable(both[when].summary)}`), true) : null;
  const saved = h("p", {}, h("button", { type: "button", class: "download", onclick: () => download(doc, "fix") }, "Download the fix as JSON"));
  if (!doc.steps.length) return section("What was changed", "change", said, saved);
  return section(
    "What was changed",
    "change",
    changed(doc.comparison),
    said,
    confirmed,
    section("Code to paste", "code", code(doc.snippet)),
    ...comparisonParts(doc.comparison, cloud),
    saved,
  );
}
