// A thousand layers on one screen: blocks that repeat are shown once; the terminal's table folds the same runs.
import type { Layer } from "./documents";

const LONGEST_BLOCK = 64;
const SLICES = 24; // of a fold that are drawn

/** Layers start to stop - 1, drawn as one column of the strip. */
export interface Column {
  start: number;
  stop: number;
  folded: boolean;
}

export interface Fold {
  start: number;
  stop: number;
}

export function folds(layers: Layer[], keep: Iterable<number>): Fold[] {
  const keys = alike(layers, new Set(keep));
  const found: Fold[] = [];
  let start = 0;
  while (start < keys.length) {
    const [block, stop] = repetition(keys, start);
    if (stop - start >= block + 3) {
      found.push({ start: start + block, stop: stop - 1 });
      start = stop;
    } else start += block;
  }
  return found;
}

/** Every layer a column of its own, but for those in a fold: these share as many columns as can be told apart. */
export function columns(layers: number, hidden: Fold[]): Column[] {
  const result: Column[] = [];
  let next = 0;
  const single = (until: number) => {
    for (; next < until; next++) result.push({ start: next, stop: next + 1, folded: false });
  };
  for (const fold of hidden) {
    single(fold.start);
    const size = fold.stop - fold.start;
    const slices = Math.min(size, SLICES);
    for (let k = 0; k < slices; k++) {
      const start = fold.start + Math.floor((k * size) / slices);
      const stop = fold.start + Math.floor(((k + 1) * size) / slices);
      result.push({ start, stop, folded: true });
    }
    next = fold.stop;
  }
  single(layers);
  return result;
}

function alike(layers: Layer[], keep: Set<number>): string[] {
  let part = 0;
  return layers.map((layer, index) => {
    if (keep.has(index)) part++;
    return `${part}|${keep.has(index)}|${layer.name.replace(/\d+/g, "#")}|${layer.status}`;
  });
}

function repetition(keys: string[], start: number): [number, number] {
  let best: [number, number] = [1, start + 1];
  const longest = Math.min(LONGEST_BLOCK, Math.floor((keys.length - start) / 2));
  for (let block = 1; block <= longest; block++) {
    let matching = start;
    while (matching + block < keys.length && keys[matching] === keys[matching + block]) matching++;
    const repetitions = Math.floor((matching - start) / block) + 1;
    const stop = start + repetitions * block;
    if (repetitions > 1 && stop > best[1]) best = [block, stop];
  }
  return best;
}

/** Columns `from` to `to` - 1 and the block that they are. */
export interface BlockLabel {
  text: string;
  from: number;
  to: number;
}

/** Runs of columns of one block; a block is named up to the first number in its name. Folded runs name a range of blocks. */
export function blockLabels(layers: Layer[], shown: Column[]): BlockLabel[] {
  const result: BlockLabel[] = [];
  let folded = false;
  shown.forEach((column, place) => {
    const text = blockName(layers[column.start].name) || "(model)";
    const last = result[result.length - 1];
    const joins = last && folded === column.folded && (column.folded || last.text === text);
    if (joins) last.to = place + 1;
    else result.push({ text, from: place, to: place + 1 });
    folded = column.folded;
  });
  for (const label of result) {
    const [first, last] = [shown[label.from], shown[label.to - 1]];
    if (first.folded) label.text = rangeName(blockName(layers[first.start].name), blockName(layers[last.stop - 1].name)) ?? `${last.stop - first.start} layers`;
  }
  return result;
}

function blockName(name: string): string {
  return /^(?:.*?\.)?\d+(?=\.|$)/.exec(name)?.[0] ?? name;
}

function rangeName(first: string, last: string): string | null {
  const cut = (name: string) => /^(.*?)(\d+)$/.exec(name);
  const [from, to] = [cut(first), cut(last)];
  return from && to && from[1] === to[1] && from[2] !== to[2] ? `${from[1]}[${from[2]}–${to[2]}]` : null;
}
