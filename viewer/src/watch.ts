// A network in training: scalars over steps, what the optimizer did to its matrices, the last snapshot in full.
import { decades } from "./chart";
import type { Known } from "./documents";
import { h, howToRead, section, table } from "./elements";
import { network } from "./network";
import { answer, ending, facts, fold, verdict } from "./page";
import { explanations, type Panel, panel, panels, points, quantity } from "./panels";
import { look, printable, written } from "./reading";
import { QUANTITIES, type Update, type WatchDocument } from "./types";

const SHOWN = 60; // matrices in the table
const SCALARS = QUANTITIES.filter((one) => one.group === "snapshot");
const LOSS = quantity("step", "loss");
const DECADES = 30; // largest over least loss from where on a linear axis hides the least
const UPDATES = QUANTITIES.filter((one) => one.group === "update");

export function watch(doc: WatchDocument, cloud: Known[]): Node[] {
  const parts: Node[] = [
    banner(doc),
    facts([
      ["steps taken", String(doc.steps)],
      ["snapshot every", `${doc.every} steps`],
      ["snapshots", String(doc.history.length)],
      ["warnings", String(doc.warnings.length)],
      ["failures", String(doc.problems.length)],
    ]),
    ...warnings(doc),
  ];
  if (doc.losses.length > 1) parts.push(section("Loss", "loss", panels([losses(doc)], "step", null, readingLoss(doc))));
  if (doc.history.length > 1) parts.push(section("Over training", "training", panels(figures(doc), "step", null, reading())));
  parts.push(...updates(doc));
  const skipped = doc.skipped.map((one) => h("span", {}, h("code", {}, printable(one.name)), `: ${printable(one.reason)}`));
  parts.push(ending(doc, "watch", fold("Failures", doc.problems.map(printable), true), fold("Parameters that were skipped", skipped)));
  parts.push(...snapshots(doc, cloud));
  return parts;
}

/** The last snapshot in full, or the last healthy one: one of them at a time, as two would share the ids of their parts. */
function snapshots(doc: WatchDocument, cloud: Known[]): HTMLElement[] {
  const kept: [string, WatchDocument["latest"] | WatchDocument["last_healthy"]][] = [
    ["The last snapshot", doc.latest],
    [`The last healthy snapshot: after ${doc.last_healthy_step} steps`, doc.last_healthy],
  ];
  const known = kept.flatMap(([title, one]) => (one ? [{ title, one }] : []));
  if (!known.length) return [];
  const heading = h("h2", {});
  const holder = h("div", { class: "networks" });
  const buttons = known.map(({ title }, index) => h("button", { type: "button", class: "link", "data-snapshot": index, onclick: () => show(index) }, title));
  const show = (index: number) => {
    heading.textContent = known[index].title;
    buttons.forEach((button, other) => (other === index ? button.setAttribute("aria-current", "true") : button.removeAttribute("aria-current")));
    holder.replaceChildren(network([known[index].one], 0, cloud, { below: true }));
  };
  show(0);
  const choice = h("ul", {}, ...buttons.map((button) => h("li", {}, button)));
  return known.length > 1 ? [h("nav", { "aria-label": "snapshots" }, choice), heading, holder] : [heading, holder];
}

/** What was wrong, in order, each with its step. */
function warnings(doc: WatchDocument): HTMLElement[] {
  if (!doc.warnings.length) return [];
  const items = doc.warnings.map((one) => h("li", { "data-warning": one.kind }, h("b", {}, `${one.kind}, after ${one.step} steps: `), printable(one.sentence)));
  const healthy = doc.last_healthy_step === null ? null : h("p", {}, `The last healthy snapshot was taken after ${doc.last_healthy_step} steps.`);
  return [section("Warnings", "warnings", h("ul", {}, ...items), healthy)];
}

/** The loss of every step, and that of guessing. */
function losses(doc: WatchDocument): Panel {
  const steps = doc.losses.map((one) => one.step);
  const values = doc.losses.map((one) => one.loss);
  const known = values.filter((value) => value !== null);
  const lines: Panel["lines"] = [{ points: points(steps, values), look: "line-strong", name: "loss" }];
  if (doc.guessing !== null) lines.push({ points: [[steps[0], doc.guessing], [steps[steps.length - 1], doc.guessing]], look: "line-theory", name: "guessing", dots: false });
  const least = Math.min(...known);
  const logarithmic = least > 0 && Math.max(...known) > DECADES * least;
  const plain = panel(LOSS, lines);
  return logarithmic ? { ...plain, title: `${plain.title} (log scale)`, y: decades(known), logarithmic } : plain;
}

function readingLoss(doc: WatchDocument): HTMLElement {
  const guess = doc.guessing === null ? "" : ` Guessing costs ${written(LOSS, doc.guessing)}.`;
  return howToRead(`The scalar at which each backward pass started.${guess} A loss that passes guessing after it was below it has diverged.`);
}

function banner(doc: WatchDocument): HTMLElement {
  const last = doc.history[doc.history.length - 1];
  if (!last) return h("p", {}, "No snapshot yet: no forward pass with gradients was made.");
  return answer(look(last.verdict), verdict(last.verdict), printable(doc.stopped ?? `after ${last.step} steps: ${last.summary}`));
}

function figures(doc: WatchDocument): Panel[] {
  const steps = doc.history.map((record) => record.step);
  const scalar = (key: string) => doc.history.map((record) => record.scalars[`orthoscope/${key}`] ?? null);
  return SCALARS.map((one) => panel(one, [{ points: points(steps, scalar(one.key)), look: "line-strong", name: "measured" }]));
}

function reading(): HTMLElement {
  return howToRead(
    "Every point is a snapshot of the network on the batch of that step. A training that goes well keeps its rank, and its gradient level: a growth per weight layer near ×1.",
    "Point at a chart, or press arrow keys on it, to read all of them at one step.",
  );
}

/** The latest recorded step of every matrix. */
function updates(doc: WatchDocument): HTMLElement[] {
  const latest = [...new Map(doc.rows.map((row): [string, Update] => [`${row.optimizer}\0${row.weight}`, row])).values()];
  if (!latest.length) return [];
  const rows = latest.slice(0, SHOWN).map((row) => [
    row.step,
    h("code", {}, printable(row.weight)),
    row.shape.join("×"),
    ...UPDATES.map((one) => written(one, row[one.key as keyof Update] as number | null, Math.min(...row.shape))),
  ]);
  const heads = ["step", "weight", "shape", ...UPDATES.map((one) => one.short)];
  const more = latest.length > SHOWN ? h("p", { class: "quiet" }, `and ${latest.length - SHOWN} more, in the JSON`) : null;
  return [section("What the latest recorded step did", "updates", table(heads, rows, new Set([0, ...UPDATES.map((_, index) => index + 3)]), "compact"), more, explanations(UPDATES))];
}
