// What to change, with what theory promises and what was measured; drawn where the document has any.
import type { Diagnosis } from "./documents";
import { h, icon, section } from "./elements";
import { fixed, look, printable, signed } from "./reading";

export interface Effect {
  gap: number | null;
  slope: number | null;
  reason: string | null;
}

export interface Prescription {
  name: string;
  why: string;
  code: string;
  advice: boolean;
  predicted: Effect | null;
  measured: Effect | null;
  verdict: string | null;
  outcome: string;
}

/** A document holds them as a list, or as a plan that has one. */
export function prescriptionsOf(doc: Diagnosis): Prescription[] {
  const held = doc.prescriptions as Prescription[] | { prescriptions?: Prescription[] } | null | undefined;
  const list = Array.isArray(held) ? held : held?.prescriptions;
  return Array.isArray(list) ? list : [];
}

export function prescriptions(doc: Diagnosis): HTMLElement | null {
  const list = prescriptionsOf(doc);
  if (!list.length) return null;
  const items = list.map((one) =>
    h(
      "li",
      {},
      h("h4", {}, printable(one.name), one.verdict ? h("span", { class: "verdict" }, icon(look(one.verdict)), one.verdict) : null),
      h("p", {}, printable(one.why)),
      h(
        "dl",
        { class: "effect" },
        ...row("now", doc.gap, doc.slope.value, null),
        ...row("predicted", one.predicted?.gap ?? null, one.predicted?.slope ?? null, one.predicted?.reason ?? null),
        ...row("measured", one.measured?.gap ?? null, one.measured?.slope ?? null, one.measured ? one.measured.reason : one.outcome),
      ),
      one.code ? h("pre", {}, h("code", {}, one.code)) : null,
    ),
  );
  return section("What to change", "prescriptions", h("ol", { class: "prescriptions" }, ...items));
}

function row(name: string, gap: number | null, slope: number | null, reason: string | null): HTMLElement[] {
  const known = gap !== null || slope !== null;
  return [h("dt", {}, name), h("dd", {}, known ? `gap ${fixed(gap)}, slope ${signed(slope)}` : printable(reason ?? "–"))];
}
