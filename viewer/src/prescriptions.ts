// What to change, with what theory promises and what was measured; drawn where the document has any.
import type { Diagnosis } from "./documents";
import { h, icon, section } from "./elements";
import { code } from "./page";
import { factor, fixed, look, printable } from "./reading";
import type { Prescription } from "./types";

const KEPT = "kept"; // the outcome of what a fix is made of

export function prescriptionsOf(doc: Diagnosis): Prescription[] {
  return doc.prescriptions ?? [];
}

/** What mends the network, and the verdict after it; null if nothing was kept. */
export function mended(doc: Diagnosis): string | null {
  const kept = prescriptionsOf(doc).filter((one) => one.outcome === KEPT);
  return kept.length ? `${kept.map((one) => printable(one.name)).join(", then ")} → ${kept[kept.length - 1].verdict}` : null;
}

export function prescriptions(doc: Diagnosis): HTMLElement | null {
  const list = prescriptionsOf(doc);
  if (!list.length) return null;
  const items = list.map((one) =>
    h(
      "li",
      { "data-outcome": one.outcome },
      h(
        "h3",
        { class: "minor" },
        printable(one.name),
        one.verdict ? h("span", { class: "verdict" }, icon(look(one.verdict)), one.verdict) : null,
        h("span", { class: one.outcome === KEPT ? "outcome kept" : "outcome" }, one.advice ? "advice for the training loop" : printable(one.outcome)),
      ),
      h("p", {}, printable(one.why)),
      h(
        "dl",
        { class: "effect" },
        ...row("now", doc.gap, doc.slope.value, null),
        ...row("predicted", one.predicted?.gap ?? null, one.predicted?.slope ?? null, one.predicted?.reason ?? null),
        ...(one.measured ? row("measured", one.measured.gap, one.measured.slope, one.measured.reason) : []),
      ),
      one.code ? code(one.code) : null,
    ),
  );
  return section("What to change", "prescriptions", h("ol", { class: "prescriptions" }, ...items));
}

function row(name: string, gap: number | null, slope: number | null, reason: string | null): HTMLElement[] {
  const known = gap !== null || slope !== null;
  return [h("dt", {}, name), h("dd", {}, known ? `orthogonality gap ${fixed(gap)}, gradient ${factor(slope)} per weight layer` : printable(reason ?? "–"))];
}
