import type { LiveOptions } from "./documents";
import { h } from "./elements";
import type { Viewer } from "./main";
export function live(_options: LiveOptions, _viewer: Viewer): HTMLElement { return h("div"); }
