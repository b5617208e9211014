// A training that is watched: its scalars over steps as they are logged, and the latest diagnosis below.
import { chart, decades, type Point } from "./chart";
import type { Diagnosis } from "./documents";
import { h, icon, section } from "./elements";
import { factor, look, number, printable, written } from "./reading";
import { QUANTITIES } from "./types";

interface Record {
  step: number;
  name: string;
  scalars: { [name: string]: number };
  verdict: string | null;
  summary: string | null;
  losses: { step: number; loss: number | null }[];
  warnings: { kind: string; step: number; sentence: string }[];
}

export function following(file: string, on: (kind: string, act: (content: any) => void) => void, show: (doc: Diagnosis) => void): HTMLElement {
  let records: Record[] = [];
  const status = h("p", { class: "status", role: "status" }, `waiting for ${printable(file)}`);
  const figures = h("div", { class: "profiles", id: "scalars" });
  const warned = h("ul", { id: "warnings", role: "alert" });
  const draw = () => {
    const last = records.at(-1);
    if (!last) return;
    status.replaceChildren(
      ...(last.verdict ? [h("span", { class: "verdict" }, icon(look(last.verdict)), last.verdict)] : []),
      ` step ${last.step} of ${printable(last.name || file)}${last.summary ? `: ${printable(last.summary)}` : ""}`,
    );
    const found = records.flatMap((record) => record.warnings);
    warned.replaceChildren(...found.map((one) => h("li", { "data-warning": one.kind }, `after ${one.step} steps ${printable(one.sentence)}`)));
    const losses = records.flatMap((record) => record.losses);
    const names = [...new Set(records.flatMap((record) => Object.keys(record.scalars)))];
    const loss = losses.length ? [curve("loss", losses.map((one): Point => [one.step, one.loss]))] : [];
    figures.replaceChildren(...loss, ...names.map((name) => scalar(name, records)));
  };
  on("history", (news: { records: Record[]; diagnosis: Diagnosis | null }) => {
    records = news.records;
    draw();
    if (news.diagnosis) show(news.diagnosis);
  });
  on("record", (news: Record & { diagnosis: Diagnosis | null }) => {
    records.push(news);
    draw();
    if (news.diagnosis) show(news.diagnosis);
  });
  on("unreadable", (news: { error: string }) => {
    status.textContent = printable(news.error);
  });
  return section(`Following ${printable(file)}`, "following", status, warned, figures);
}

function scalar(name: string, records: Record[]): HTMLElement {
  return curve(name, records.filter((record) => name in record.scalars).map((record): Point => [record.step, record.scalars[name]]));
}

function curve(name: string, points: Point[]): HTMLElement {
  const key = name.replace(/^orthoscope\//, "");
  const known = QUANTITIES.find((one) => (one.group === "snapshot" || one.group === "step") && one.key === key);
  const values = points.flatMap((p) => (p[1] === null ? [] : [p[1]]));
  if (!values.length) return h("figure", { class: "profile" }, h("figcaption", {}, `${known?.label ?? printable(key)}: not finite`));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const logarithmic = low > 0 && high / low > 100;
  const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
  const steps = points.map((p) => p[0]);
  const { svg } = chart({
    width: 330,
    height: 150,
    x: [Math.min(...steps), Math.max(Math.min(...steps) + 1, ...steps)],
    y: logarithmic ? decades(values) : [low - room, high + room],
    logarithmic,
    lines: [{ points, look: "line-strong", name }],
    tick: known?.written === "factor" ? factor : undefined,
    title: name,
  });
  svg.setAttribute("data-scalar", name);
  svg.setAttribute("data-points", String(points.length));
  return h("figure", { class: "profile" }, h("figcaption", {}, `${known?.label ?? printable(key)}: ${known ? written(known, values.at(-1) ?? null) : number(values.at(-1))}`), svg);
}
