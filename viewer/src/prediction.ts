// A prediction: how deep a network trains, curves over depth, the checks that fail, the numbers, and the theorems.
import type { Marker } from "./chart";
import { h, howToRead, section, table } from "./elements";
import { answer, ending, explained, facts, sources, verdict } from "./page";
import { around, type Panel, panel, panels, points, unit } from "./panels";
import { factor, fixed, look, measure, printable, share, significant, symptomWords, tenToThe, UNDEFINED, unitWords, written } from "./reading";
import { type Depth, type DepthFinding, type PredictionDocument, QUANTITIES, type Quantity } from "./types";

const SHOWN = 14; // depths in the table that is open
const SPREAD = "overlap_deviation"; // drawn and written as the ± of the overlap

export function prediction(doc: PredictionDocument): Node[] {
  const last = doc.depths[doc.depths.length - 1];
  const deepest = h("div", { class: "verdict" }, `${doc.deepest ?? "none"} of ${last.depth}`, h("small", {}, "deepest that trains"));
  return [
    answer(look(last.verdict), deepest, printable(doc.summary)),
    facts([
      [`verdict at depth ${last.depth}`, verdict(last.verdict)],
      ["at risk from depth", String(doc.at_risk_from ?? "none")],
      ["sick from depth", String(doc.sick_from ?? "none")],
      ["samples × width", `${doc.samples} × ${doc.width}`],
      ["mean cosine of the inputs", fixed(doc.overlap)],
      ["computed in", `${doc.seconds.toFixed(1)} s`],
    ]),
    section("By depth", "depths", panels(figures(doc), "depth (hidden layers)", turning(doc), reading())),
    ends(doc),
    numbers(doc),
    ...limits(doc),
    ...(doc.sources.length ? [section("Theorems used", "sources", sources(doc.sources))] : []),
    ending(doc, "prediction"),
  ];
}

/** What a prediction has numbers of, at every depth. */
function quantities(doc: PredictionDocument): Quantity[] {
  return QUANTITIES.filter(({ group, key }) => (group === "layer" || group === "depth") && key in doc.depths[0] && key !== SPREAD);
}

function at(row: Depth, key: string): number | null {
  return row[key as keyof Depth] as number | null;
}

function figures(doc: PredictionDocument): Panel[] {
  const depths = doc.depths.map((row) => row.depth);
  return quantities(doc).map((one) => {
    const values = doc.depths.map((row) => drawn(one, row, doc));
    return panel(one, [{ points: points(depths, values), look: "line-strong", name: "theory" }], changes(one, values, doc));
  });
}

/** A rank as its share of the possible, a growth in powers of ten: the exponential of a thousand e-folds is no number. */
function drawn(one: Quantity, row: Depth, doc: PredictionDocument): number | null {
  const value = at(row, one.key);
  if (one.axis === "share") return share(value, Math.min(doc.samples, doc.width));
  return one.written === "factor" && value !== null ? value / Math.LN10 : value;
}

/** What the panel of a depth has that is not in the table of quantities. */
function changes(one: Quantity, values: (number | null)[], doc: PredictionDocument): Partial<Panel> {
  if (one.key === "overlap") {
    const spread = doc.depths.map((row): [number, number | null, number | null] => {
      const known = row.overlap !== null && row.overlap_deviation !== null;
      const end = (sign: number) => (known ? Math.max(-1, Math.min(1, row.overlap! + sign * row.overlap_deviation!)) : null);
      return [row.depth, end(-1), end(1)];
    });
    return { title: "Mean overlap ± s.d. of one pair", bands: [{ points: spread, look: "band" }], y: unit([...values, ...spread.map((p) => p[1])]) };
  }
  if (one.axis === "share") return { write: significant };
  if (one.key === "isometry_gap") return { y: around(values, 1) };
  if (one.written !== "factor") return {};
  return {
    title: "Gradient growth, from output to input (log scale)",
    y: level(values),
    tick: power,
    write: (decade) => factor(decade === null ? null : decade * Math.LN10),
  };
}

/** One power of ten either way at least: a level gradient must not look steep. */
function level(growth: (number | null)[]): [number, number] {
  const [low, high] = around(growth);
  return high - low >= 1 ? [low, high] : [-1, 1];
}

function power(decade: number): string {
  return Number.isInteger(decade) && Math.abs(decade) > 2 ? tenToThe(decade) : String(Number((10 ** decade).toPrecision(2)));
}

function turning(doc: PredictionDocument): Marker | null {
  if (doc.at_risk_from === null) return null;
  return { x: doc.at_risk_from, words: `${doc.at_risk_from === doc.sick_from ? "sick" : "at risk"} from depth ${doc.at_risk_from}` };
}

function reading(): HTMLElement {
  return howToRead(
    "Nothing was built or measured: every point is a network of that many hidden layers, and the number is what theory expects after the last of them.",
    "A network that trains keeps enough directions (rank) and holds the gradient level. The band is ± one standard deviation of the cosine of a single pair of samples.",
    h("p", {}, h("b", { class: "begins" }, "▼ "), "the first depth at which a check of the diagnosis fails. Point at a chart, or press arrow keys on it, to read all of them at one depth."),
  );
}

/** Every check that finds something at some depth: where it begins, and in what words. */
function ends(doc: PredictionDocument): HTMLElement {
  const found = new Map<string, { first: DepthFinding; from: Record<string, number> }>();
  for (const row of doc.depths) {
    for (const one of row.findings) {
      if (!found.has(one.check)) found.set(one.check, { first: one, from: {} });
      found.get(one.check)!.from[one.severity] ??= row.depth;
    }
  }
  const rows = [...found].map(([check, { first, from }]) => [
    explained(check, symptomWords(first.symptom)),
    printable(first.reason),
    String(from["AT RISK"] ?? UNDEFINED),
    String(from["SICK"] ?? UNDEFINED),
  ]);
  return section(
    "Checks that fail",
    "ends",
    rows.length
      ? table(["check", "result at the first depth where it fails", "at risk from depth", "sick from depth"], rows, new Set([2, 3]), "checks")
      : h("p", { class: "quiet" }, "No check fails at any of these depths."),
    ...doc.not_checked.map((one) => h("p", { class: "quiet" }, `Not checked: ${printable(one.check)} (${printable(one.reason)}).`)),
  );
}

/** A screenful of depths in sight, all of them one click away. */
function numbers(doc: PredictionDocument): HTMLElement {
  const brief = shown(doc);
  const all = h("details", { class: "every-depth" }, h("summary", {}, `All ${doc.depths.length} depths`));
  all.addEventListener("toggle", () => {
    if (!all.querySelector("table")) all.append(depthsTable(doc, doc.depths));
  });
  return section("Numbers", "numbers", depthsTable(doc, brief), brief.length < doc.depths.length ? all : null);
}

/** About fourteen depths in equal ratios, with the first, the last and those where the verdict changes. */
function shown(doc: PredictionDocument): Depth[] {
  const rows = doc.depths;
  if (rows.length <= SHOWN) return rows;
  const named = new Set([doc.deepest, doc.at_risk_from, doc.sick_from]);
  const kept = new Set(rows.flatMap((row, index) => (named.has(row.depth) ? [index] : [])));
  const ratio = rows[rows.length - 1].depth / rows[0].depth;
  for (let step = 0; step < SHOWN; step++) {
    const wanted = Math.round(rows[0].depth * ratio ** (step / (SHOWN - 1)));
    kept.add(rows.findIndex((row) => row.depth >= wanted));
  }
  return [...kept].sort((a, b) => a - b).map((index) => rows[index]);
}

function depthsTable(doc: PredictionDocument, rows: Depth[]): HTMLElement {
  const possible = Math.min(doc.samples, doc.width);
  const known = quantities(doc);
  const cells = rows.map((row) => [
    row.depth === doc.at_risk_from ? h("strong", {}, `▶ ${row.depth}`) : String(row.depth),
    ...known.map((one) => `${written(one, at(row, one.key), possible)}${one.key === "overlap" && row.overlap_deviation !== null ? ` ± ${fixed(row.overlap_deviation, 3)}` : ""}`),
    verdict(row.verdict),
    [...new Set(row.findings.map((one) => printable(one.check)))].join(", "),
  ]);
  const heads = ["depth", ...known.map((one) => (one.key === "overlap" ? "overlap ± s.d." : one.short || one.label)), "verdict", "checks that fail"];
  return table(heads, cells, new Set([0, ...known.map((_, index) => index + 1)]), "compact");
}

function limits(doc: PredictionDocument): HTMLElement[] {
  if (!doc.limit.length) return [];
  const rows = doc.limit.map((one) => [explained(one.name, unitWords(one.unit)), measure(one.value, one.unit), explained(one.source, `assuming ${one.assumes}`)]);
  return [section("Limits at infinite depth", "limit", table(["quantity", "value", "source"], rows, new Set([1])))];
}
