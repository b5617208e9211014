// How a page holds its documents; their types are generated (types.ts).
import type { AnyDocument } from "./types";

export type { DiagnosisDocument as Diagnosis, Expected, Finding, Layer, Picture, Prescription, Seeds, Source as Statement, View } from "./types";

export interface Known {
  gap: number;
  slope: number;
  trained: boolean;
  family?: string;
}

export interface PageData {
  documents: AnyDocument[]; // diagnoses, or one of another kind
  reference_cloud: Known[];
  live: LiveOptions | null;
}

export interface LiveOptions {
  token: string;
  follow: string | null;
  activations: string[];
  norms: string[];
  inits: string[];
}

/** What the shell of the page holds: JSON that was compressed by zlib, in base64. */
export async function inflated(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
