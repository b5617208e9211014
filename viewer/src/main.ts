// The viewer: one page over versioned documents, in a file, in a notebook or live.
import { type Diagnosis, type PageData, unpacked } from "./documents";
import { h, icon, table } from "./elements";
import { term } from "./explain";
import { live } from "./live";
import { network } from "./network";
import { factor, firstSick, fixed, growth, layerName, look, printable, shortened, symptomWords, UNDEFINED } from "./reading";
import { themeButton } from "./theme";

const VERDICTS = ["SICK", "AT RISK", "HEALTHY"];

export class Viewer {
  private chosen = 0;
  readonly holder = h("div", { class: "networks" });

  constructor(
    private docs: Diagnosis[],
    private readonly cloud: PageData["reference_cloud"],
    private readonly titled: (docs: Diagnosis[], chosen: number) => void,
  ) {}

  show(docs: Diagnosis[], chosen = 0): void {
    this.docs = docs;
    this.choose(chosen);
  }

  choose(index: number): void {
    this.chosen = Math.min(Math.max(0, index), Math.max(0, this.docs.length - 1));
    this.titled(this.docs, this.chosen);
    const parts: Node[] = [];
    if (this.docs.length > 1) parts.push(overview(this.docs, this.chosen, (next) => this.choose(next)));
    if (this.docs.length) {
      if (this.docs.length > 1) parts.push(h("h2", {}, `${this.chosen + 1}. ${shortened(printable(this.docs[this.chosen].name), 120)}`));
      parts.push(network(this.docs, this.chosen, this.cloud, (next) => this.choose(next)));
    }
    this.holder.replaceChildren(...parts);
  }
}

function overview(docs: Diagnosis[], chosen: number, choose: (index: number) => void): HTMLElement {
  const rows = docs.map((doc, index) => {
    const first = firstSick(doc);
    const button = h(
      "button",
      { type: "button", class: "link", "aria-current": index === chosen ? "true" : null, "data-choose": index, onclick: () => choose(index) },
      shortened(printable(doc.name), 100) || "(no name)",
    );
    return [
      index + 1,
      button,
      h("span", { class: "verdict" }, icon(look(doc.verdict)), doc.verdict),
      doc.symptoms.map(symptomWords).join(", ") || "none",
      first === null ? UNDEFINED : h("code", {}, layerName(doc.layers[first])),
      fixed(doc.gap),
      factor(growth(doc), 2),
    ];
  });
  const heads = ["#", "network", "verdict", "symptoms", "begins at", term("gap", "gap"), term("gradient_growth", "gradient")];
  return h("nav", { class: "overview", "aria-label": "networks" }, table(heads, rows, new Set([0, 5, 6])));
}

function title(docs: Diagnosis[]): string {
  if (docs.length === 1) return shortened(printable(docs[0].name), 120) || "a network without a name";
  const counts = VERDICTS.map((verdict): [string, number] => [verdict, docs.filter((doc) => doc.verdict === verdict).length]);
  const parts = counts.filter(([, times]) => times).map(([verdict, times]) => `${times} ${verdict.toLowerCase()}`);
  return `${docs.length} networks${parts.length ? `: ${parts.join(", ")}` : ""}`;
}

function start(): void {
  const source = document.getElementById("orthoscope-data");
  const fallback = document.getElementById("orthoscope-static");
  if (!source || !fallback) return;
  const data = unpacked(JSON.parse(source.textContent ?? "")) as PageData;
  const heading = h("h1");
  const viewer = new Viewer(data.documents, data.reference_cloud, (docs) => {
    heading.textContent = docs.length || !data.live ? title(docs) : "Explore";
  });
  const eyebrow = h("p", { class: "eyebrow" }, data.live ? "Orthoscope, live" : "Orthoscope report");
  const page = h("div", { id: "orthoscope" }, h("header", {}, h("div", { class: "tools" }, themeButton()), eyebrow, heading));
  const main = h("main");
  if (data.live) main.append(live(data.live, viewer));
  main.append(viewer.holder);
  page.append(main);
  fallback.replaceWith(page);
  viewer.choose(0);
}

start();
