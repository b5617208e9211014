// How the Jacobians of residual blocks align: statements, depth, pairs, blocks; a page, or a part of a diagnosis.
import type { Line } from "./chart";
import { h, howToRead, section, table } from "./elements";
import { heatmap } from "./heatmap";
import { answer, ending, explained, facts, fold } from "./page";
import { around, explanations, type Panel, panel, panels, points } from "./panels";
import { fixed, number, printable, shortened, significant, UNDEFINED, written } from "./reading";
import { type Block, type DiagnosisDocument, QUANTITIES, type Quantity, type ResidualDocument } from "./types";

const COLUMNS = QUANTITIES.filter((one) => one.group === "block");

const STATES = new Map([[true, "holds"], [false, "fails"], [null, "undefined"]]);
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
      ...known("length of the path over its end-to-end distance (1: straight)", doc.line_shape, fixed),
      ...known("variation of the step lengths (0: equal)", doc.spacing_variation, fixed),
      ...known("slope of 1/σ₁ over depth (R²)", doc.law.slope, (slope) => `${significant(slope)} (${fixed(doc.law.r_squared)})`),
      ...known("log singular values of the whole network, mean ± s.d.", doc.whole?.mean_log ?? null, (mean) => `${significant(mean)} ± ${significant(doc.whole!.spread_log)}`),
      ["measured in", `${doc.seconds.toFixed(1)} s`],
    ]),
    section("Statements", "statements", statements(doc)),
    // Branches that are all zero have nothing to draw.
    ...(doc.blocks.every((one) => one.dead) ? [] : drawings(doc)),
    h("details", { open: doc.blocks.length <= 40 }, h("summary", {}, `${doc.blocks.length} blocks as a table`), blocks(doc)),
  ];
}

function drawings(doc: ResidualDocument): HTMLElement[] {
  return [
    section("Along depth", "along", panels(figures(doc), "residual branch, from input to output", null)),
    section("Pairs of blocks", "pairs", h("div", { class: "profiles" }, pairs(doc), reading())),
  ];
}

/** A fact, where its number is defined. */
function known(name: string, value: number | null, write: (value: number) => string): [string, string][] {
  return value === null ? [] : [[name, write(value)]];
}

function statements(doc: ResidualDocument): HTMLElement {
  const kinds = new Map([[true, "state-clean"], [null, "quiet"]]);
  const rows = doc.statements.map((one) => [
    h("span", { class: kinds.get(one.holds) ?? null }, `${SIGNS.get(one.holds)} ${one.key} ${STATES.get(one.holds)}`),
    explained(one.statement, one.quantity),
    one.value === null ? "not measured" : significant(one.value),
    `${one.above ? "≥" : "≤"} ${significant(one.limit)}`,
  ]);
  return table(["state", "statement", "measured", "limit"], rows, new Set([2, 3]), "checks");
}

/** The first singular value beyond the classes, by its symbol. */
function sigma(doc: ResidualDocument): string {
  return `σ${[...String(doc.classes + 1)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]).join("")}`;
}

function leading(block: Block): number | null {
  return block.singular_values[0];
}

function inverse(block: Block): number | null {
  const value = leading(block);
  return value && !block.dead ? 1 / value : null;
}

function figures(doc: ResidualDocument): Panel[] {
  const order = doc.blocks.map((_, index) => index + 1);
  const line = (values: (number | null)[]): Line => ({ points: points(order, values), look: "line-strong", name: "measured" });
  const inverses = doc.blocks.map(inverse);
  const { slope, intercept } = doc.law;
  const known = slope !== null && intercept !== null && order.length > 1;
  const fitted = known ? order.map((at) => intercept + slope * at) : [];
  return [
    {
      title: "1/σ₁, one over the largest singular value",
      explanation: "The larger, the less a block can stretch: a straight line upward in networks that were trained for long.",
      name: "inverse",
      lines: known ? [line(inverses), { points: points(order, fitted), look: "line-fit", name: "fitted line", dots: false }] : [line(inverses)],
      y: around([...inverses, ...fitted]),
      write: number,
    },
    ...COLUMNS.filter((one) => one.key !== "sigma1").map((one) => panel(one, [line(doc.blocks.map((block) => stored(one, block)))])),
  ];
}

function stored(one: Quantity, block: Block): number | null {
  return one.key === "sigma1" ? leading(block) : (block[one.key as keyof Block] as number | null);
}

function pairs(doc: ResidualDocument): HTMLElement {
  return heatmap({
    title: "Misalignment of pairs of blocks",
    explanation: "How little the singular vectors of two blocks agree: dark if they share them, pale if they are unrelated.",
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
  return howToRead(
    "A residual branch adds a step to the representation; its Jacobian says how the step depends on where it starts.",
    "In networks that were trained long enough, steps of one input point the same way (RA1), Jacobians of different blocks share their singular vectors (RA2), have no more of them than there are classes (RA3), and shrink as one over depth (RA4): Li & Papyan, 2023.",
    "The grid compares block i (up) with the singular vectors of block j (across). Crossed-out pairs cannot be compared: their shapes differ, or a branch is zero.",
  );
}

function blocks(doc: ResidualDocument): HTMLElement {
  const rows = doc.blocks.map((one) => [
    h("code", {}, shortened(printable(one.name), 60)),
    ...COLUMNS.map((column) => written(column, stored(column, one))),
    one.inputs === one.outputs ? String(one.inputs) : `${one.inputs}→${one.outputs}`,
    one.dead ? "zero branch" : printable(one.skip + (one.activation ? `, then ${one.activation}` : "")) || UNDEFINED,
  ]);
  const heads = ["block", ...COLUMNS.map((one) => one.key === "rank_ratio" ? `${sigma(doc)}/σ₁` : one.symbol || one.label), "size", "skip"];
  return h("div", {}, table(heads, rows, new Set(heads.slice(1, -1).map((_, index) => index + 1)), "compact"), explanations(COLUMNS));
}

function rest(doc: ResidualDocument): (HTMLElement | null)[] {
  const left = doc.left_out.map((one) => h("span", {}, h("code", {}, printable(one.name) || "(model)"), `: ${printable(one.reason)}`));
  return [fold("Notes", doc.notes.map(printable), true), fold("Additions that are no residual branch", left)];
}
