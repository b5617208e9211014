// Sliders, and the curves of theory that move with them: worked out by the server, drawn as they arrive.
import { chart, decades, type Line, type Point } from "./chart";
import type { LiveOptions } from "./documents";
import { h, icon } from "./elements";
import { look, printable } from "./reading";

interface Row {
  depth: number;
  rms: number | null;
  overlap: number | null;
  gap: number | null;
  effective_rank: number | null;
}

interface Curves {
  rows: Row[];
  gradients: Point[];
}

const SLIDERS: { name: string; title: string; min: number; max: number; step: number; value: number }[] = [
  { name: "depth", title: "depth", min: 2, max: 300, step: 1, value: 50 },
  { name: "width", title: "width", min: 16, max: 1024, step: 16, value: 128 },
  { name: "weight_gain", title: "gain of the weights", min: 0.5, max: 1.5, step: 0.01, value: 1 },
  { name: "gain", title: "gain of the activation", min: 0.1, max: 2, step: 0.05, value: 1 },
  { name: "samples", title: "samples", min: 4, max: 256, step: 4, value: 64 },
  { name: "overlap", title: "overlap of the inputs", min: 0, max: 0.95, step: 0.05, value: 0 },
];

export function playground(options: LiveOptions, diagnose: (target: string) => void): HTMLElement {
  const choice = (name: string, values: string[], first: string) =>
    h("select", { id: name, name }, ...values.map((value) => h("option", { value, selected: value === first }, value)));
  const selects = [choice("activation", options.activations, "relu"), choice("norm", options.norms, "none"), choice("init", options.inits, "he")];
  const residual = h("input", { type: "checkbox", id: "residual" });
  const sliders = SLIDERS.map((one) => h("input", { type: "range", id: one.name, min: one.min, max: one.max, step: one.step, value: one.value }));
  const values = sliders.map((slider) => h("output", { for: slider.id }, slider.value));
  const figures = h("div", { class: "profiles", id: "curves" });
  const verdict = h("p", { class: "status", id: "forecast", role: "status", "aria-live": "polite" });
  const number = (name: string) => Number(sliders[SLIDERS.findIndex((one) => one.name === name)].value);
  const target = () => {
    const words = selects.map((select) => `${select.id}=${select.value}`);
    words.push(...["depth", "width", "weight_gain", "gain"].map((name) => `${name}=${number(name)}`));
    if (residual.checked) words.push("residual=True");
    return `mlp(${words.join(", ")})`;
  };
  let shown: Curves = { rows: [], gradients: [] };
  let asked: AbortController | null = null;
  const ask = async () => {
    asked?.abort();
    const mine = (asked = new AbortController());
    const begun = performance.now();
    const ghost = shown;
    const now: Curves = { rows: [], gradients: [] };
    const query = new URLSearchParams({ target: target(), samples: String(number("samples")), overlap: String(number("overlap")) });
    figures.dataset.busy = "";
    try {
      const answer = await fetch(`/api/theory?${query}`, { headers: { "X-Orthoscope-Token": options.token }, signal: mine.signal });
      for await (const part of lines(answer)) {
        if (mine !== asked) return;
        if (part.rows?.length) {
          if (!now.rows.length) figures.dataset.first = (performance.now() - begun).toFixed(0);
          now.rows.push(...part.rows);
        }
        if (part.end) now.gradients = part.end.log_gradients.map((value: number | null, index: number): Point => [index + 1, value === null ? null : Math.exp(value)]);
        draw(figures, now, ghost, number("depth"), Math.min(number("samples"), number("width")));
        tell(verdict, part);
      }
      if (mine !== asked) return;
      shown = now;
      draw(figures, now, { rows: [], gradients: [] }, number("depth"), Math.min(number("samples"), number("width")));
      figures.dataset.all = (performance.now() - begun).toFixed(0);
      delete figures.dataset.busy;
    } catch (error) {
      if (mine === asked && !mine.signal.aborted) verdict.textContent = "the server does not answer: is orthoscope explore still running?";
    }
  };
  const changed = () => {
    sliders.forEach((slider, index) => (values[index].textContent = slider.value));
    void ask();
  };
  for (const control of [...selects, residual, ...sliders]) control.addEventListener("input", changed);
  setTimeout(changed);
  return h(
    "div",
    { class: "playground" },
    h(
      "form",
      { class: "controls", onsubmit: (event: Event) => event.preventDefault() },
      ...selects.flatMap((select) => [h("label", { for: select.id }, select.id), select, h("span")]),
      h("label", { for: "residual" }, "skip connections"),
      residual,
      h("span"),
      ...sliders.flatMap((slider, index) => [h("label", { for: slider.id }, SLIDERS[index].title), slider, values[index]]),
      h("button", { type: "button", id: "measure", onclick: () => diagnose(target()) }, "Build it and measure"),
    ),
    h("div", {}, verdict, figures),
  );
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
    const reasons = part.end.reasons.length ? part.end.reasons.map(printable).join("; ") : "nothing found";
    verdict.replaceChildren(h("span", { class: "verdict" }, icon(look(part.end.verdict)), part.end.verdict), ` ${reasons}`);
  }
}

function draw(figures: HTMLElement, now: Curves, ghost: Curves, depth: number, most: number): void {
  const column = (curves: Curves, read: (row: Row) => number | null): Point[] => curves.rows.map((row) => [row.depth, read(row)]);
  const share = (row: Row) => (row.effective_rank === null ? null : row.effective_rank / most);
  const specs: [string, string, (curves: Curves) => Point[], boolean][] = [
    ["overlap", "Mean overlap (cosine of pairs)", (curves) => column(curves, (row) => row.overlap), false],
    ["gap", "Orthogonality gap", (curves) => column(curves, (row) => row.gap), false],
    ["rank", "Effective rank, share of the possible", (curves) => column(curves, share), false],
    ["rms", "RMS of the output (log scale)", (curves) => column(curves, (row) => row.rms), true],
    ["gradient", "Gradient, relative to the output (log scale)", (curves) => curves.gradients, true],
  ];
  figures.replaceChildren(
    ...specs.map(([name, title, read, logarithmic]) => {
      const points = read(now);
      const lines: Line[] = [{ points: read(ghost), look: "line-faint", name: "before" }, { points, look: "line-theory", name }];
      const y: [number, number] = logarithmic ? decades([1, ...points.map((p) => p[1])]) : [0, 1];
      const { svg } = chart({ width: 330, height: 180, x: [1, Math.max(2, depth)], y, logarithmic, lines, title });
      svg.setAttribute("data-curve", name);
      svg.setAttribute("data-end", String(points.at(-1)?.[1] ?? ""));
      return h("figure", { class: "profile" }, h("figcaption", {}, title), svg);
    }),
  );
}
