// What to do next: right below the verdict, before any number.
import type { Diagnosis } from "./documents";
import { h, jump, section } from "./elements";
import { prescriptionsOf } from "./prescriptions";
import { printable } from "./reading";

/** The steps that the document names, then what would change the verdict, in the order in which it was found to help. */
export function nextSteps(doc: Diagnosis): HTMLElement | null {
  const steps = doc.next_steps.map((step) => h("li", {}, ...withCode(printable(step))));
  const plan = prescriptionsOf(doc).map((one) => printable(one.name));
  if (plan.length) {
    steps.push(h("li", {}, `${plan.length > 1 ? "Changes to try, in this order" : "A change to try"}: ${plan.join("; ")} (`, jump("prescriptions", "with code and effect"), ")."));
  }
  return steps.length ? section("What to do next", "next", h("ol", { class: "next" }, ...steps)) : null;
}

/** What stands between backquotes as code: a command or a call to copy. */
function withCode(text: string): (Node | string)[] {
  return text.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part));
}
