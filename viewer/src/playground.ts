// Sliders, and the curves of theory that move with them: worked out by the server, drawn as they arrive.
import type { Diagnosis, LiveOptions } from "./documents";
import { h, icon } from "./elements";
import { type Curves, drawCurves, type Measured, measuredCurves, type Reach, swatch } from "./curves";
import { look, printable, symptomWords } from "./reading";

const MOST_KEPT = 5; // settings beside the current one: more curves cannot be told apart

const SLIDERS: { name: string; title: string; min: number; max: number; step: number; value: number }[] = [
  { name: "depth", title: "depth", min: 2, max: 300, step: 1, value: 50 },
  { name: "width", title: "width", min: 16, max: 1024, step: 16, value: 128 },
  { name: "weight_gain", title: "gain of the weights", min: 0.5, max: 1.5, step: 0.01, value: 1 },
  { name: "gain", title: "gain of the activation", min: 0.1, max: 2, step: 0.05, value: 1 },
  { name: "samples", title: "samples", min: 4, max: 256, step: 4, value: 64 },
  { name: "overlap", title: "mean cosine of the inputs", min: 0, max: 0.95, step: 0.05, value: 0 },
];

interface Setting {
  values: Record<string, string>;
  curves: Curves;
  verdict: string;
}

export interface Playground {
  element: HTMLElement;
  measured: (doc: Diagnosis) => void;
}

export function playground(options: LiveOptions, diagnose: (target: string, samples: number) => void): Playground {
  const choice = (name: string, values: string[], first: string) =>
    h("select", { id: name, name }, ...values.map((value) => h("option", { value, selected: value === first }, value)));
  const selects = [choice("activation", options.activations, "relu"), choice("norm", options.norms, "none"), choice("init", options.inits, "he")];
  const residual = h("input", { type: "checkbox", id: "residual" });
  const sliders = SLIDERS.map((one) => h("input", { type: "range", id: one.name, min: one.min, max: one.max, step: one.step, value: one.value }));
  const outputs = sliders.map((slider) => h("output", { for: slider.id }, slider.value));
  const figures = h("div", { class: "profiles", id: "curves" });
  const verdict = h("p", { class: "status", id: "forecast", role: "status", "aria-live": "polite" });
  const reach = h("p", { class: "status", id: "reach", role: "status", "aria-live": "polite" });
  const list = h("ol", { class: "kept-list", id: "kept" });

  const values = (): Record<string, string> => ({
    ...Object.fromEntries([...selects, ...sliders].map((control) => [control.id, control.value])),
    residual: residual.checked ? "True" : "False",
  });
  let current: Setting = { values: values(), curves: { rows: [], gradients: [], reach: null }, verdict: "" };
  let kept: Setting[] = [];
  const measurements = new Map<string, Measured>(); // by what was built
  let asked: AbortController | null = null;

  const draw = (ghost: Curves | null = null) => {
    const others = kept.filter((one) => keyOf(one.values) !== keyOf(current.values)).map((one) => ({ curves: one.curves, place: kept.indexOf(one) }));
    const { depth, samples, width } = current.values;
    const spec = { depth: Number(depth), most: Math.min(Number(samples), Number(width)) };
    drawCurves(figures, { ...spec, now: current.curves, ghost, kept: others, measured: measurements.get(builtKey(current.values)) ?? null });
  };
  const ask = async () => {
    asked?.abort();
    const mine = (asked = new AbortController());
    const begun = performance.now();
    const ghost = current.curves;
    const now: Curves = { rows: [], gradients: [], reach: null };
    current = { values: values(), curves: now, verdict: "" };
    const { samples, overlap } = current.values;
    const query = new URLSearchParams({ target: targetOf(current.values), samples, overlap });
    figures.dataset.busy = "";
    delete reach.dataset.deepest;
    reach.replaceChildren("searching for the deepest network that trains …");
    try {
      const answer = await fetch(`/api/theory?${query}`, { headers: { "X-Orthoscope-Token": options.token }, signal: mine.signal });
      for await (const part of lines(answer)) {
        if (mine !== asked) return;
        if (part.rows?.length) {
          if (!now.rows.length) figures.dataset.first = (performance.now() - begun).toFixed(0);
          now.rows.push(...part.rows);
        }
        if (part.end) {
          now.gradients = part.end.log_gradients.map((value: number | null, index: number) => [index + 1, value === null ? null : Math.exp(value)]);
          current.verdict = part.end.verdict;
          figures.dataset.all = (performance.now() - begun).toFixed(0);
        }
        if (part.reach) now.reach = part.reach;
        draw(part.end || part.reach ? null : ghost);
        tell(verdict, part);
      }
      if (mine !== asked) return;
      tellReach(reach, now.reach, (depth) => set({ ...current.values, depth: String(depth) }));
      draw();
      listKept();
      delete figures.dataset.busy;
    } catch (error) {
      if (mine === asked && !mine.signal.aborted) verdict.textContent = "the server does not answer: is orthoscope explore still running?";
    }
  };
  const apart = h("p", { class: "quiet", id: "apart" }, "A network that is built gets independent samples: its measurement is drawn only where the mean cosine of the inputs is 0.");
  const changed = () => {
    apart.hidden = Number(values().overlap) === 0;
    sliders.forEach((slider, index) => (outputs[index].textContent = slider.value));
    void ask();
  };
  const set = (given: Record<string, string>) => {
    for (const control of [...selects, ...sliders]) control.value = given[control.id];
    residual.checked = given.residual === "True";
    changed();
  };
  const keep = () => {
    if (!current.curves.rows.length || kept.some((one) => keyOf(one.values) === keyOf(current.values))) return;
    kept = [...kept, current].slice(-MOST_KEPT);
    listKept();
    draw();
  };
  const listKept = () => {
    list.replaceChildren(
      ...kept.map((one, place) =>
        h(
          "li",
          {},
          h("button", { type: "button", class: "link", onclick: () => set(one.values) }, swatch(place), icon(look(one.verdict)), describe(one)),
          h("button", { type: "button", class: "drop", "aria-label": `forget ${describe(one)}`, onclick: () => drop(one) }, "✕"),
        ),
      ),
    );
  };
  const drop = (one: Setting) => {
    kept = kept.filter((other) => other !== one);
    listKept();
    draw();
  };
  for (const control of [...selects, residual, ...sliders]) control.addEventListener("input", changed);
  setTimeout(changed);
  const build = () => {
    keep();
    diagnose(targetOf(current.values), Number(current.values.samples));
  };
  const form = h(
    "form",
    { class: "controls", onsubmit: (event: Event) => event.preventDefault() },
    ...selects.flatMap((select) => [h("label", { for: select.id }, select.id), select, h("span")]),
    h("label", { for: "residual" }, "skip connections"),
    residual,
    h("span"),
    ...sliders.flatMap((slider, index) => [h("label", { for: slider.id }, SLIDERS[index].title), slider, outputs[index]]),
    h("button", { type: "button", id: "measure", onclick: build }, "Build it and measure"),
    h("button", { type: "button", id: "keep", onclick: keep }, "Keep to compare"),
  );
  const settings = h("div", {}, h("h3", { class: "minor" }, "Settings kept"), list, h("p", { class: "quiet empty" }, "None yet. A kept setting stays as a thin curve; click it to restore it."));
  return {
    element: h("div", { class: "playground" }, h("div", {}, form, apart, settings), h("div", {}, verdict, reach, figures)),
    measured: (doc) => {
      measurements.set(`${doc.name}|${doc.samples}`, measuredCurves(doc));
      draw();
    },
  };
}

function targetOf(values: Record<string, string>): string {
  const words = ["activation", "norm", "init", "depth", "width", "weight_gain", "gain"].map((name) => `${name}=${values[name]}`);
  if (values.residual === "True") words.push("residual=True");
  return `mlp(${words.join(", ")})`;
}

/** What a measurement is of: built networks get Gaussian samples without overlap. */
function builtKey(values: Record<string, string>): string {
  return Number(values.overlap) === 0 ? `${targetOf(values)}|${values.samples}` : "";
}

function keyOf(values: Record<string, string>): string {
  return JSON.stringify(values);
}

/** In words, what is not as it is at the start left out; then how deep such networks train. */
function describe({ values, curves }: Setting): string {
  const changed = SLIDERS.filter(({ name, value }) => name !== "depth" && Number(values[name]) !== value).map(({ name, title }) => `${title} ${values[name]}`);
  const norm = values.norm === "none" ? [] : [`${values.norm} norm`];
  const skip = values.residual === "True" ? ["skip connections"] : [];
  const deepest = curves.reach === null ? [] : [`trains ${reachWords(curves.reach)}`];
  return [values.activation, ...norm, values.init, ...skip, `depth ${values.depth}`, ...changed, ...deepest].join(", ");
}

/** Lines of JSON as they arrive. */
async function* lines(answer: Response): AsyncGenerator<any> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const whole = rest.split("\n");
    rest = whole.pop() ?? "";
    for (const line of whole) yield JSON.parse(line);
    if (done) break;
  }
  if (rest) yield JSON.parse(rest);
}

function tell(verdict: HTMLElement, part: any): void {
  if (part.error) verdict.replaceChildren(printable(part.error));
  else if (part.lost) verdict.replaceChildren(`theory ends after ${part.layers} layers: ${printable(part.lost)}`);
  else if (part.end) {
    const reasons = part.end.reasons.length ? part.end.reasons.map(printable).join("; ") : "no check fails by theory";
    verdict.replaceChildren(h("span", { class: "verdict" }, icon(look(part.end.verdict)), part.end.verdict), ` at this depth: ${reasons}.`);
  }
}

function reachWords({ deepest, searched, symptoms }: Reach): string {
  if (deepest === null) return "at no depth";
  return symptoms.length ? `up to depth ${deepest}` : `at every depth up to ${searched}`;
}

function tellReach(place: HTMLElement, found: Reach | null, use: (depth: number) => void): void {
  if (found === null) {
    place.replaceChildren("");
    return;
  }
  const { deepest, symptoms } = found;
  place.dataset.deepest = String(deepest ?? 0);
  const button = deepest === null || deepest < SLIDERS[0].min ? null : h("button", { type: "button", id: "deepest", onclick: () => use(deepest) }, `Set depth to ${deepest}`);
  const beyond = symptoms.length ? `; deeper: ${symptoms.map(symptomWords).join(", ")}. ` : ", the deepest that is searched. ";
  place.replaceChildren("By theory, networks like this train ", h("b", {}, reachWords(found)), beyond, button ?? "");
}
