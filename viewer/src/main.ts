// The viewer: one page over versioned documents, in a file, in a notebook or live.
import { comparison } from "./comparison";
import { confirmation } from "./confirmation";
import { type Diagnosis, inflated, type Known, type PageData } from "./documents";
import { h, icon, table } from "./elements";
import { term } from "./explain";
import { fix } from "./fix";
import { live } from "./live";
import { network } from "./network";
import { prediction } from "./prediction";
import { factor, firstSick, fixed, growth, layerName, look, printable, shortened, symptomWords, UNDEFINED } from "./reading";
import { residualPage } from "./residual";
import { themeButton } from "./theme";
import type { AnyDocument } from "./types";
import { watch } from "./watch";

type Alone = Exclude<AnyDocument, Diagnosis>;
/** The kind in a schema such as `orthoscope.watch/2`. */
type Kind<D extends AnyDocument> = D["schema"] extends `orthoscope.${infer K}/${string}` ? K : never;

/** Pages of one document that is no diagnosis: one for every kind. */
const PAGES: { [D in Alone as Kind<D>]: (doc: D, cloud: Known[]) => Node[] | HTMLElement } = {
  prediction,
  residual: residualPage,
  comparison,
  fix,
  confirmation,
  watch,
};

function kindOf<D extends AnyDocument>(doc: D): Kind<D> {
  return doc.schema.split(/[./]/)[1] as Kind<D>;
}

function isDiagnosis(doc: AnyDocument): doc is Diagnosis {
  return kindOf(doc) === "diagnosis";
}

const VERDICTS = ["SICK", "AT RISK", "UNKNOWN", "HEALTHY"];

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
      parts.push(network(this.docs, this.chosen, this.cloud, { choose: (next) => this.choose(next), below: this.docs.length > 1 }));
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
      factor(growth(doc)),
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

/** The page of a document that stands alone: its title is the one it has without the script. */
function alone(doc: Alone, cloud: Known[]): HTMLElement {
  const draw = PAGES[kindOf(doc)] as (doc: Alone, cloud: Known[]) => Node[] | HTMLElement;
  const drawn = draw(doc, cloud);
  // A fix is an article already: that of the network before it.
  return drawn instanceof HTMLElement ? drawn : h("article", { class: "network", "data-ready": "" }, ...drawn);
}

async function start(): Promise<void> {
  const source = document.getElementById("orthoscope-data");
  const fallback = document.getElementById("orthoscope-static");
  if (!source || !fallback) return;
  const data = (await inflated(source.textContent ?? "")) as PageData;
  const heading = h("h1", {}, fallback.querySelector("h1")?.textContent ?? "");
  const eyebrow = h("p", { class: "eyebrow" }, data.live ? "Orthoscope, live" : (fallback.querySelector(".eyebrow")?.textContent ?? ""));
  const page = h("div", { id: "orthoscope" }, h("header", {}, h("div", { class: "tools" }, themeButton()), eyebrow, heading));
  const main = h("main");
  page.append(main);
  const [first] = data.documents;
  if (first && !isDiagnosis(first)) {
    main.append(alone(first, data.reference_cloud));
    fallback.replaceWith(page);
    return;
  }
  const viewer = new Viewer(data.documents.filter(isDiagnosis), data.reference_cloud, (docs) => {
    heading.textContent = docs.length || !data.live ? title(docs) : "Explore";
  });
  if (data.live) main.append(live(data.live, viewer));
  main.append(viewer.holder);
  fallback.replaceWith(page);
  viewer.choose(0);
}

void start();
