// What a layer looks like: its eigenvalues beside those of random and of orthogonal samples, overlaps, Gram matrix.
import { chart, decades, type Point } from "./chart";
import type { Layer, Picture } from "./documents";
import { h, s } from "./elements";
import { fixed } from "./reading";

const [WIDTH, HEIGHT] = [380, 190];

/**
 * Eigenvalues of a Gram matrix of `count` independent Gaussian samples of `size` units, mean 1, largest first:
 * quantiles of the law of Marchenko and Pastur with ratio y = count/size, density √((b-λ)(λ-a))/(2πyλ) on [a, b],
 * a, b = (1 ∓ √y)²; beyond y = 1 the rest are zero.
 */
export function marchenkoPastur(count: number, size: number): number[] {
  const y = count / size;
  const [a, b] = [(1 - Math.sqrt(y)) ** 2, (1 + Math.sqrt(y)) ** 2];
  const steps = 2000;
  const values: number[] = [];
  const mass: number[] = [];
  let sum = 0;
  for (let k = 0; k < steps; k++) {
    // λ = a + (b - a) sin²(t/2) takes the square roots at both ends out of the integral.
    const t = (Math.PI * (k + 0.5)) / steps;
    const value = a + (b - a) * Math.sin(t / 2) ** 2;
    sum += (Math.sin(t) ** 2 * (b - a) ** 2) / 4 / value;
    values.push(value);
    mass.push(sum);
  }
  const positive = Math.min(count, size);
  return Array.from({ length: count }, (_, index) => {
    if (index >= positive) return 0;
    const level = sum * (1 - (index + 0.5) / positive);
    let low = 0;
    let high = steps - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (mass[middle] < level) low = middle + 1;
      else high = middle;
    }
    return values[low];
  });
}

export function spectrum(layer: Layer, picture: Picture): HTMLElement {
  const step = Math.ceil(layer.samples / picture.eigenvalues.length);
  const points = picture.eigenvalues.map((value, index): Point => [index * step + 1, value]);
  const random = marchenkoPastur(layer.samples, layer.units).map((value, index): Point => [index + 1, value]);
  return figure(
    "Eigenvalues of the Gram matrix (log scale, mean 1)",
    levels(points, random, "sample direction"),
    "solid: this layer; dashed: independent Gaussian samples (Marchenko–Pastur); flat: orthogonal samples",
    "spectrum",
  );
}

export function weightSpectrum(weight: { out: number; in: number; values: number[] }): HTMLElement {
  const size = Math.min(weight.out, weight.in);
  const step = Math.ceil(size / weight.values.length);
  const mean = weight.values.reduce((sum, value) => sum + value * value, 0) / weight.values.length || 1;
  const points = weight.values.map((value, index): Point => [index * step + 1, (value * value) / mean]);
  const random = marchenkoPastur(size, Math.max(weight.out, weight.in)).map((value, index): Point => [index + 1, value]);
  return figure(
    `Squared singular values of the weight, ${weight.out}×${weight.in} (log scale, mean 1)`,
    levels(points, random, "singular direction"),
    "dashed: independent Gaussian weights (Marchenko–Pastur); flat: an orthogonal matrix",
    "weight",
  );
}

function levels(points: Point[], random: Point[], name: string): SVGSVGElement {
  const last = Math.max(2, random.length);
  const seen = points.map((p) => p[1]).filter((value) => value !== null && value > 1e-12);
  const { svg } = chart({
    width: WIDTH,
    height: HEIGHT,
    x: [1, last],
    y: decades([1, ...seen], random.map((p) => p[1])),
    logarithmic: true,
    lines: [
      { points: [[1, 1], [last, 1]], look: "line-orthogonal", name: "orthogonal" },
      { points: random, look: "line-theory", name: "Marchenko–Pastur" },
      { points, look: "line-strong", name: "eigenvalues", dots: points.length <= 64 },
    ],
    xName: name,
    title: `spectrum over ${name}s`,
  });
  return svg;
}

export function overlaps(picture: Picture): HTMLElement {
  const { low, high, counts } = picture.overlaps;
  const [left, right, top, bottom] = [10, WIDTH - 10, 8, 120];
  const floor = Math.min(0, Math.floor(low * 2) / 2);
  const x = (value: number) => left + ((value - floor) / (1 - floor)) * (right - left);
  const most = Math.max(...counts);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} 140`, class: "chart histogram", role: "img", "aria-label": "histogram of overlaps" });
  counts.forEach((count, index) => {
    const from = x(low + ((high - low) * index) / counts.length);
    const to = x(low + ((high - low) * (index + 1)) / counts.length);
    const tall = ((bottom - top) * count) / most;
    svg.append(s("rect", { x: from, y: bottom - tall, width: Math.max(1.5, to - from - 0.5), height: tall, class: "bar", "data-count": count }));
  });
  svg.append(s("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
  for (const tick of floor < 0 ? [floor, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(s("text", { x: x(tick), y: bottom + 15, "text-anchor": "middle", class: "tick" }, String(tick).replace("-", "−")));
  }
  const pairs = counts.reduce((sum, count) => sum + count, 0);
  return figure("Overlaps", svg, `cosines of ${pairs} pairs of samples, ${fixed(low)} to ${fixed(high)}`, "overlaps");
}

/** Cosines of pairs as they were stored: signed bytes of the upper triangle. */
export function cosines(picture: Picture): number[][] {
  const { size, cosines: text } = picture.gram;
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const matrix: number[][] = Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_, j) => (i === j ? 1 : 0)));
  let next = 0;
  for (let i = 0; i < size; i++) {
    for (let j = i + 1; j < size; j++) {
      matrix[i][j] = matrix[j][i] = ((bytes[next++] << 24) >> 24) / 127;
    }
  }
  return matrix;
}

export function gram(picture: Picture): HTMLElement {
  const matrix = cosines(picture);
  const size = matrix.length;
  const side = 200 / size;
  const svg = s("svg", { viewBox: "0 0 200 200", class: "gram", role: "img", "aria-label": "Gram matrix of cosines" });
  matrix.forEach((row, i) =>
    row.forEach((value, j) => {
      const rect = s("rect", { x: j * side, y: i * side, width: side + 0.2, height: side + 0.2, class: value < 0 ? "cell low" : "cell high", "data-value": value.toFixed(3) });
      rect.style.setProperty("--t", `${Math.round(100 * Math.abs(value))}%`);
      svg.append(rect);
    }),
  );
  return figure("Gram matrix", svg, `cosines of ${size} samples; orthogonal samples leave the diagonal alone`, "gram");
}

function figure(title: string, content: Node, caption: string, name: string): HTMLElement {
  return h("figure", { class: `picture picture-${name}` }, h("figcaption", {}, title), content, h("p", { class: "quiet" }, caption));
}
