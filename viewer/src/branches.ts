// The trunk of a network and the residual branches beside it, read off names, kinds and gradients of a document.
//
// A container is a residual block if something in the document says that it adds: a gradient that its last module
// shares with its sum, a shortcut, a branch that is zero by design, an attention layer beside another one, or a
// module of the same structure elsewhere. Whatever is not known to be in a branch is drawn on the trunk.
import type { Diagnosis, Layer } from "./documents";

/** Layers start to stop - 1, from where the branch leaves the trunk to where it is added again. */
export interface Branch {
  start: number;
  stop: number;
  block: string;
  closed: boolean; // zero at the start by design, so that no gradient enters either
}

interface Container {
  name: string;
  start: number;
  stop: number;
  end: number | null; // the layer whose output is the container's
  own: boolean; // whether that layer is the container itself, not its last module
}

const SHORTCUT = /^(downsample|shortcut|skip|skip_conv|skip_connection|conv_shortcut|proj_shortcut|residual_conv)$/;
const BRANCH = /^(branch\d*|residual_branch|residual_function)$/;
const ATTENTION = /^(attn\d*|attention|mha|multihead_attn|(self|cross|sa|linear)_?(attn|attention)|SelfAttention)$/i;
const NORM = /(Layer|RMS)_?Norm/i;
const ACTIVATION = /LU$|Swish|Mish|Tanh|Sigmoid|Activation|Hardswish/i;
const SAME = 1e-4; // relative difference of gradient norms that rounding explains

export function branches(doc: Diagnosis): Branch[] {
  const { layers } = doc;
  const named = new Set(doc.residual?.blocks.map((block) => block.name));
  const candidates = containers(layers).filter((one) => isBlock(layers, doc.input, one));
  const known = candidates.filter((one) => named.has(one.name) || adds(layers, one));
  const patterns = new Set(known.map((one) => pattern(layers, one)));
  const taken = new Uint8Array(layers.length);
  const found: Branch[] = [];
  for (const block of candidates) {
    if (!patterns.has(pattern(layers, block)) || taken.slice(block.start, block.stop).some(Boolean)) continue;
    taken.fill(1, block.start, block.stop);
    found.push(...branchesOf(layers, block));
  }
  return found.sort((a, b) => a.start - b.start);
}

/** Where modules of one container are called in a row, inner ones first. */
function containers(layers: Layer[]): Container[] {
  const open = new Map<string, Container>();
  const found: Container[] = [];
  const close = (name: string, stop: number) => {
    const one = open.get(name)!;
    open.delete(name);
    found.push({ ...one, stop });
  };
  layers.forEach((layer, index) => {
    const around = new Set(prefixes(layer.name));
    for (const name of [...open.keys()]) if (name !== layer.name && !around.has(name)) close(name, index);
    if (open.has(layer.name)) {
      Object.assign(open.get(layer.name)!, { end: index, own: true });
      close(layer.name, index + 1);
    }
    for (const name of around) {
      if (!open.has(name)) open.set(name, { name, start: index, stop: index, end: null, own: false });
      if (!layer.also.includes(name)) continue;
      open.get(name)!.end = index;
      close(name, index + 1);
    }
  });
  for (const name of [...open.keys()]) close(name, layers.length);
  return found.sort((a, b) => a.stop - a.start - (b.stop - b.start));
}

function prefixes(name: string): string[] {
  const parts = name.split(".");
  return parts.slice(1).map((_, count) => parts.slice(0, count + 1).join("."));
}

/** The module of the container that a layer is in, by its own name. */
function child(layer: Layer, { name }: Container): string {
  return layer.name.slice(name.length + 1).split(".")[0];
}

function inner(block: Container): number[] {
  const stop = block.own ? block.end! : block.stop;
  return Array.from({ length: stop - block.start }, (_, k) => block.start + k);
}

/** Several modules with a weight among them, that return what they take or have a shortcut; no list of blocks. */
function isBlock(layers: Layer[], input: Layer, block: Container): boolean {
  const within = inner(block).map((index) => layers[index]);
  const names = new Set(within.map((layer) => child(layer, block)));
  if (names.has("blocks") || names.has("stages") || [...names].every((name) => /^\d*$/.test(name))) return false;
  if (!within.some((layer) => layer.depth !== null && !SHORTCUT.test(child(layer, block)))) return false;
  if ([...names].some((name) => SHORTCUT.test(name))) return true;
  const before = block.start ? layers[block.start - 1] : input;
  const after = layers[block.end ?? block.stop - 1];
  return before.shape.join() === after.shape.join();
}

function adds(layers: Layer[], block: Container): boolean {
  const within = inner(block).map((index) => layers[index]);
  const names = new Set(within.map((layer) => child(layer, block)));
  if ([...names].some((name) => SHORTCUT.test(name) || BRANCH.test(name))) return true;
  if (within.some((layer) => layer.status === "zero by design")) return true;
  const beside = within.some((layer) => layer.depth !== null && !ATTENTION.test(child(layer, block)));
  if (beside && [...names].some((name) => ATTENTION.test(name))) return true;
  if (!block.own) return false;
  const [last, sum] = [within[within.length - 1], layers[block.end!]];
  // The gradient of x + f(x) with respect to f(x) is that of the sum; f(x) alone would also have its rms.
  return agrees(last.gradient_norm, sum.gradient_norm) && !agrees(last.rms, sum.rms);
}

function agrees(a: number | null, b: number | null): boolean {
  return !!a && !!b && Math.abs(a / b - 1) < SAME;
}

/** What blocks of one structure share: the numbers in names left out, and the shortcut that only some have. */
function pattern(layers: Layer[], block: Container): string {
  const parts = inner(block)
    .filter((index) => !SHORTCUT.test(child(layers[index], block)))
    .map((index) => layers[index].name.slice(block.name.length));
  return [block.name.replace(/\d+/g, "#"), ...parts].join("|");
}

function branchesOf(layers: Layer[], block: Container): Branch[] {
  const body = inner(block).filter((index) => !SHORTCUT.test(child(layers[index], block)));
  return split(layers, block, body).map((run) => ({
    start: run[0],
    stop: run[run.length - 1] + 1,
    block: block.name,
    closed: run.some((index) => layers[index].status === "zero by design"),
  }));
}

function split(layers: Layer[], block: Container, body: number[]): number[][] {
  const isNorm = (index: number) => NORM.test(layers[index].kind) && closes(layers[index], block);
  const branched = body.filter((index) => BRANCH.test(child(layers[index], block)));
  if (branched.length) return [branched];
  const runs: number[][] = [[]];
  const before = isNorm(body[0]);
  const after = !before && block.end !== null && isNorm(block.end);
  body.forEach((index, place) => {
    const run = runs[runs.length - 1];
    if (after && isNorm(index)) runs.push([]); // normalizes the sum: on the trunk
    else if (!block.own && index === block.end && ACTIVATION.test(layers[index].kind)) return; // acts on the sum
    else if (before && isNorm(index) && run.some((other) => !isNorm(other)) && place + 1 < body.length && !isNorm(body[place + 1])) runs.push([index]);
    else run.push(index);
  });
  return runs.filter((run) => run.length);
}

/** A norm of the block itself or one that ends a part of it, not one inside an attention layer. */
function closes(layer: Layer, block: Container): boolean {
  const parent = layer.name.slice(0, layer.name.lastIndexOf("."));
  return parent === block.name || layer.also.includes(parent);
}
