// How the Jacobians of residual blocks align: statements, depth, pairs, blocks; a page, or a part of a diagnosis.
import { h, section, table } from "./elements";
import { heatmap } from "./heatmap";
import { answer, ending, explained, facts, fold } from "./page";
import { around, type Panel, panels, points } from "./panels";
import { fixed, number, printable, shortened, significant, UNDEFINED } from "./reading";
import type { DiagnosisDocument, ResidualBlock, ResidualDocument } from "./types";

const STATES = new Map([[true, "holds"], [false, "fails"], [null, "not known"]]);
const SIGNS = new Map([[true, "●"], [false, "■"], [null, "○"]]);

export function residualPage(doc: ResidualDocument): Node[] {
  return [...parts(doc), ending(doc, "residual", ...rest(doc))];
}

/** The part of a diagnosis that went so deep. */
export function residual(doc: DiagnosisDocument): HTMLElement | null {
  return doc.residual ? section("Residual alignment", "residual", ...parts(doc.residual), ...rest(doc.residual)) : null;
}

function parts(doc: ResidualDocument): Node[] {
  // Without alignment a network may well train: only what is aligned has a color.
  const kind = doc.verdict === "ALIGNED" ? "healthy" : "neutral";
  return [
    answer(kind, h("span", { class: "verdict" }, doc.verdict), printable(doc.summary)),
    facts([
      ["residual branches", String(doc.blocks.length)],
      ["samples", String(doc.samples)],
      ["line shape", fixed(doc.line_shape)],
      ["spacing variation", fixed(doc.spacing_variation)],
      ["slope of 1/σ₁ (R²)", `${significant(doc.law.slope)} (${fixed(doc.law.r_squared)})`],
      ...(doc.whole ? [["whole network, log σ", `${significant(doc.whole.mean_log)} ± ${significant(doc.whole.spread_log)}`] as [string, string]] : []),
      ["seconds", doc.seconds.toFixed(1)],
    ]),
    section("Statements", "statements", statements(doc)),
    section("Along depth", "along", panels(figures(doc), "residual branch, from input to output", null, pairs(doc), reading())),
    h("details", { open: doc.blocks.length <= 40 }, h("summary", {}, `${doc.blocks.length} blocks as a table`), blocks(doc)),
  ];
}

function statements(doc: ResidualDocument): HTMLElement {
  const kinds = new Map([[true, "state-clean"], [null, "quiet"]]);
  const rows = doc.statements.map((one) => [
    h("span", { class: kinds.get(one.holds) ?? null }, `${SIGNS.get(one.holds)} ${one.key} ${STATES.get(one.holds)}`),
    explained(one.statement, one.quantity),
    significant(one.value),
    `${one.above ? "≥" : "≤"} ${significant(one.limit)}`,
  ]);
  return table(["state", "statement", "measured", "limit"], rows, new Set([2, 3]), "checks");
}

/** The first singular value beyond the classes, by its symbol. */
function sigma(doc: ResidualDocument): string {
  return `σ${[...String(doc.classes + 1)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]).join("")}`;
}

function leading(block: ResidualBlock): number | null {
  return block.singular_values[0];
}

function inverse(block: ResidualBlock): number | null {
  const value = leading(block);
  return value && !block.dead ? 1 / value : null;
}

function figures(doc: ResidualDocument): Panel[] {
  const order = doc.blocks.map((_, index) => index + 1);
  const panel = (title: string, name: string, values: (number | null)[], write: Panel["write"]): Panel => ({
    title,
    name,
    lines: [{ points: points(order, values), look: "line-strong", name: "measured" }],
    y: around(values),
    write,
  });
  const inverses = doc.blocks.map(inverse);
  const { slope, intercept } = doc.law;
  const first = panel("1/σ₁, one over the largest singular value", "inverse", inverses, number);
  if (slope !== null && intercept !== null && order.length > 1) {
    const fitted = order.map((at) => intercept + slope * at);
    first.lines.push({ points: points(order, fitted), look: "line-fit", name: "fitted line", dots: false });
    first.y = around([...inverses, ...fitted]);
  }
  return [
    first,
    panel(`${sigma(doc)}/σ₁, what is beyond the classes`, "ratio", doc.blocks.map((one) => one.rank_ratio), (v) => fixed(v, 3)),
    panel("Length of the step", "step", doc.blocks.map((one) => one.step), number),
  ];
}

function pairs(doc: ResidualDocument): HTMLElement {
  return heatmap({
    title: "Misalignment of pairs of blocks",
    name: "pairs",
    matrix: doc.pairs,
    labels: doc.blocks.map((one) => shortened(printable(one.name), 40) || "(model)"),
    rows: "block",
    columns: "in the singular vectors of",
    low: "0 aligned",
    high: "1 unrelated",
    write: fixed,
  });
}

function reading(): HTMLElement {
  return h(
    "div",
    { class: "reading key" },
    h("h4", {}, "How to read"),
    h("p", {}, "A residual branch adds a step to the representation; its Jacobian says how the step depends on where it starts."),
    h("p", {}, "In networks that were trained long enough, steps of one input point the same way (RA1), Jacobians of different blocks share their singular vectors (RA2), have no more of them than there are classes (RA3), and shrink as one over depth (RA4): Li & Papyan, 2023."),
    h("p", {}, "The grid compares block i (up) with the singular vectors of block j (across). Crossed-out pairs cannot be compared: their shapes differ, or a block is dead."),
  );
}

function blocks(doc: ResidualDocument): HTMLElement {
  const rows = doc.blocks.map((one) => [
    h("code", {}, shortened(printable(one.name), 60)),
    number(leading(one), 3),
    number(inverse(one)),
    fixed(one.rank_ratio, 3),
    fixed(one.misalignment),
    number(one.step),
    fixed(one.top_energy),
    one.inputs === one.outputs ? String(one.inputs) : `${one.inputs}→${one.outputs}`,
    one.dead ? "dead" : printable(one.skip + (one.activation ? `, then ${one.activation}` : "")) || UNDEFINED,
  ]);
  const heads = ["block", "σ₁", "1/σ₁", `${sigma(doc)}/σ₁`, "misaligned", "step", "energy", "size", "skip"];
  return table(heads, rows, new Set([1, 2, 3, 4, 5, 6, 7]), "blocks");
}

function rest(doc: ResidualDocument): (HTMLElement | null)[] {
  const left = doc.left_out.map((one) => h("span", {}, h("code", {}, printable(one.name) || "(model)"), `: ${printable(one.reason)}`));
  return [fold("Notes", doc.notes.map(printable), true), fold("Additions that are no residual branch", left)];
}
