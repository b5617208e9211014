// A confirmation: whether a short training bears out the verdict, and the losses of every learning rate.
import { decades } from "./chart";
import { h, howToRead, icon, section, table } from "./elements";
import { answer, ending, facts, verdict } from "./page";
import { around, type Panel, panels, points } from "./panels";
import { number, printable, significant } from "./reading";
import type { ConfirmationDocument } from "./types";

const KINDS: Record<string, string> = { trains: "healthy", "does not train": "sick", undecided: "at-risk" };
const SAID = new Map([[true, "yes"], [false, "no"], [null, "undecided"]]);
const LOOKS = ["line-strong", "line-theory", "line-second", "line-faint"];

export function confirmation(doc: ConfirmationDocument): Node[] {
  const rows = doc.runs.map((run) => [significant(run.learning_rate), loss(run.final), loss(run.best), printable(run.stopped)]);
  return [
    answer(KINDS[doc.outcome] ?? "at-risk", h("span", { class: "verdict" }, icon(KINDS[doc.outcome] ?? "at-risk"), doc.outcome.toUpperCase()), printable(doc.summary)),
    facts([
      ["verdict", verdict(doc.verdict)],
      ["confirmed by training", SAID.get(doc.confirmed) ?? "undecided"],
      ["loss at the end, best learning rate", loss(doc.final_loss)],
      ["loss of the best constant output", number(doc.guessing_loss, 3)],
      [`loss of ${printable(doc.reference)}`, number(doc.reference_loss, 3)],
      ["steps", String(doc.steps)],
      ["data", printable(doc.source)],
    ]),
    section("Loss over steps", "losses", panels([figure(doc)], "step", null, reading(doc))),
    section("Learning rates", "rates", table(["learning rate", "loss at the end", "least loss", "ended"], rows, new Set([0, 1, 2]), "compared")),
    ending(doc, "confirmation"),
  ];
}

function loss(value: number | null): string {
  return value === null ? "diverged" : number(value, 3);
}

function figure(doc: ConfirmationDocument): Panel {
  const lines = doc.runs.map((run, index) => ({
    points: points(run.losses.map((_, step) => step + 1), run.losses),
    look: LOOKS[index % LOOKS.length],
    name: `learning rate ${significant(run.learning_rate)}`,
    dots: false,
  }));
  for (const [name, level, look] of [["best constant output", doc.guessing_loss, "line-fit"], ["reference", doc.reference_loss, "line-orthogonal"]] as const) {
    if (level !== null) lines.push({ points: [[1, level], [Math.max(2, doc.steps), level]], look, name, dots: false });
  }
  const values = lines.flatMap((line) => line.points.map((p) => p[1]));
  const known = values.filter((value) => value !== null);
  const [low, high] = [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)];
  const logarithmic = low > 0 && high / low > 20;
  return { title: `Loss of a step${logarithmic ? " (log scale)" : ""}`, name: "loss", lines, y: logarithmic ? decades(values) : around(values), logarithmic, write: (v) => number(v, 3) };
}

function reading(doc: ConfirmationDocument): HTMLElement {
  return howToRead(
    `Copies of the network were trained for ${doc.steps} steps at every learning rate. It trains if, at one of them, the loss falls at least half as far below that of the best constant output as for ${printable(doc.reference)}.`,
    "A line that ends early is a training that diverged.",
  );
}
