// What happens between modules: attentions, the residual stream, recurrent layers and mixtures of experts, as tables.
import type { Diagnosis } from "./documents";
import { h, section, table } from "./elements";
import { term } from "./explain";
import { number, printable, UNDEFINED, written } from "./reading";
import { QUANTITIES, type Quantity } from "./types";

type Row = { module: string; experts?: number; steps?: number };

export function inside(doc: Diagnosis): HTMLElement | null {
  const parts = [
    stream(doc),
    rows("Attention", "attention", doc.attention),
    rows("Recurrent layers", "time", doc.time),
    rows("Mixtures of experts", "experts", doc.experts),
  ].filter((part) => part !== null);
  return parts.length ? section("Inside", "inside", ...parts.flat()) : null;
}

function stream(doc: Diagnosis): HTMLElement[] | null {
  const points = doc.stream;
  if (!points?.length) return null;
  const size = (value: number | null) => (value === null ? UNDEFINED : number(value));
  const cells = points.map((point) => [h("code", {}, printable(point.name)), size(point.rms), size(point.branch_ratio), size(point.gradient_norm)]);
  const heads = ["residual stream after", "RMS", "branch over stream", "gradient norm"];
  const made = table(heads, cells, new Set([1, 2, 3]));
  return [h("h3", { class: "minor" }, "Residual stream"), h("details", {}, h("summary", {}, `${points.length} residual sums`), made)];
}

function rows(title: string, group: Quantity["group"], found: readonly Row[] | null | undefined): HTMLElement[] | null {
  if (!found?.length) return null;
  const shown = QUANTITIES.filter((quantity) => quantity.group === group);
  const cells = found.map((row) => [
    h("code", { "data-inside": row.module }, printable(row.module) || "(model)"),
    ...shown.map((one) => written(one, ((row as unknown as Record<string, number | null>)[one.key] ?? null), row.experts ?? row.steps ?? null)),
  ]);
  const heads = ["module", ...shown.map((one) => term(one.key, one.label))];
  return [h("h3", { class: "minor" }, title), table(heads, cells, new Set(shown.map((_, index) => index + 1)))];
}
