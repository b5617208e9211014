// A network in training: scalars over steps, what the optimizer did to its matrices, the last snapshot in full.
import type { Known } from "./documents";
import { h, section, table } from "./elements";
import { network } from "./network";
import { answer, ending, facts, fold, verdict } from "./page";
import { around, type Panel, panels, points, unit } from "./panels";
import { fixed, look, number, printable, rank, signed } from "./reading";
import type { UpdateRow, WatchDocument } from "./types";

const SHOWN = 60; // matrices in the table
const SCALARS: [string, string, boolean, Panel["write"]][] = [
  ["worst_gap", "Worst orthogonality gap", true, fixed],
  ["min_effective_rank", "Least effective rank", false, rank],
  ["mean_overlap", "Mean overlap (cosine of pairs)", true, fixed],
  ["gradient_slope", "Log-gradient per layer, toward the input", false, signed],
];

export function watch(doc: WatchDocument, cloud: Known[]): Node[] {
  const parts: Node[] = [
    banner(doc),
    facts([
      ["steps taken", String(doc.steps)],
      ["snapshot every", `${doc.every} steps`],
      ["snapshots", String(doc.history.length)],
      ["snapshots that failed", String(doc.problems.length)],
    ]),
  ];
  if (doc.history.length > 1) parts.push(section("Over training", "training", panels(figures(doc), "step", null, reading())));
  parts.push(...updates(doc));
  const skipped = doc.skipped.map((one) => h("span", {}, h("code", {}, printable(one.name)), `: ${printable(one.reason)}`));
  parts.push(ending(doc, "watch", fold("Snapshots that failed", doc.problems.map(printable), true), fold("Parameters that were skipped", skipped)));
  if (doc.latest) parts.push(h("h2", {}, "The last snapshot"), network([doc.latest], 0, cloud, () => {}));
  return parts;
}

function banner(doc: WatchDocument): HTMLElement {
  const last = doc.history[doc.history.length - 1];
  if (!last) return h("p", {}, "No snapshot yet: no forward pass with gradients was made.");
  return answer(look(last.verdict), verdict(last.verdict), printable(doc.stopped ?? `after ${last.step} steps: ${last.summary}`));
}

function figures(doc: WatchDocument): Panel[] {
  const steps = doc.history.map((record) => record.step);
  const column = (name: string) => doc.history.map((record) => record.scalars[`orthoscope/${name}`] ?? null);
  return SCALARS.map(([name, title, bounded, write]) => {
    const values = column(name);
    return { title, name, lines: [{ points: points(steps, values), look: "line-strong", name: "measured" }], y: bounded ? unit(values) : around(values, 1e-3), write };
  });
}

function reading(): HTMLElement {
  return h(
    "div",
    { class: "reading key" },
    h("h4", {}, "How to read"),
    h("p", {}, "Every point is a snapshot of the network on the batch of that step. A training that goes well keeps its rank, and its gradient level: a slope near zero."),
    h("p", {}, "Point at a chart, or press arrow keys on it, to read all of them at one step."),
  );
}

/** The latest recorded step of every matrix. */
function updates(doc: WatchDocument): HTMLElement[] {
  const latest = [...new Map(doc.rows.map((row): [string, UpdateRow] => [`${row.optimizer}\0${row.weight}`, row])).values()];
  if (!latest.length) return [];
  const rows = latest.slice(0, SHOWN).map((row) => [
    row.step,
    h("code", {}, printable(row.weight)),
    row.shape.join("×"),
    number(row.gradient_norm),
    number(row.relative_size, 3),
    `${rank(row.effective_rank)} of ${Math.min(...row.shape)}`,
    fixed(row.semi_orthogonality_defect),
    fixed(row.update_alignment),
    signed(row.independence_change, 4),
  ]);
  const heads = ["step", "weight", "shape", "‖gradient‖", "‖ΔW‖/‖W‖", "effective rank of ΔW", "uneven", "cosine of ΔW and W", "ΔPII"];
  const more = latest.length > SHOWN ? h("p", { class: "quiet" }, `and ${latest.length - SHOWN} more, in the JSON`) : null;
  const words = h("p", { class: "quiet" }, "Uneven: 0 if all singular values of ΔW are equal. PII: mean |cosine| of two rows of a weight; Δ is what the step changed.");
  return [section("What the latest recorded step did", "updates", table(heads, rows, new Set([0, 3, 4, 5, 6, 7, 8])), more, words)];
}
