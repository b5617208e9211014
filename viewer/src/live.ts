// The live page: a playground of theory, networks diagnosed on demand, and a training that is followed.
import type { Diagnosis, LiveOptions } from "./documents";
import { h } from "./elements";
import { following } from "./following";
import { playground } from "./playground";
import { printable } from "./reading";

interface Shows {
  show(docs: Diagnosis[], chosen?: number): void;
}

export function live(options: LiveOptions, viewer: Shows): HTMLElement {
  const docs: Diagnosis[] = [];
  const status = h("p", { class: "status", role: "status", "aria-live": "polite" });
  const bar = h("progress", { max: 1, value: 0, hidden: true });
  const field = h("input", { type: "text", id: "target", size: 48, maxlength: 2000, spellcheck: "false", value: "mlp(depth=50, activation=relu)" });
  const seed = h("input", { type: "number", id: "seed", min: 0, max: 2 ** 31, value: 0 });
  const button = h("button", { type: "submit" }, "Diagnose");
  const rest = (busy: boolean) => {
    button.disabled = busy;
    bar.hidden = !busy;
    bar.value = 0;
  };
  const diagnose = async (target: string, samples = 64) => {
    field.value = target;
    rest(true);
    status.textContent = `building ${target}`;
    const body = JSON.stringify({ target, samples, seed: Number(seed.value) || 0 });
    try {
      const answer = await fetch("/api/diagnose", { method: "POST", body, headers: { "X-Orthoscope-Token": options.token } });
      if (answer.ok) return;
      status.textContent = printable((await answer.json()).error);
    } catch {
      status.textContent = "the server does not answer: is orthoscope explore still running?";
    }
    rest(false);
  };
  const form = h(
    "form",
    {
      class: "diagnose",
      onsubmit: (event: Event) => {
        event.preventDefault();
        void diagnose(field.value);
      },
    },
    h("label", { for: "target" }, "network"),
    field,
    h("label", { for: "seed" }, "seed"),
    seed,
    button,
  );
  const events = new EventSource(`/api/events?token=${encodeURIComponent(options.token)}`);
  const on = (kind: string, act: (content: any) => void) =>
    events.addEventListener(kind, (message) => act(JSON.parse((message as MessageEvent<string>).data)));
  on("progress", (news: { share: number; what: string }) => {
    bar.value = news.share;
    status.textContent = printable(news.what);
  });
  on("failure", (news: { error: string }) => {
    rest(false);
    status.textContent = printable(news.error);
  });
  on("document", (doc: Diagnosis) => {
    rest(false);
    status.textContent = `${doc.verdict}: ${printable(doc.summary)}`;
    docs.push(doc);
    viewer.show(docs, docs.length - 1);
    board.measured(doc);
  });
  const board = playground(options, (target, samples) => void diagnose(target, samples));
  const parts = [
    h("section", { class: "part panel" }, h("h2", { class: "title" }, "Playground"), board.element),
    h(
      "section",
      { class: "part panel" },
      h("h2", { class: "title" }, "Diagnose a network"),
      h("p", { class: "quiet" }, "A built-in such as mlp(depth=50), convnet(), resnet(), transformer(), or timm:NAME, hf:NAME, package.module:callable."),
      form,
      bar,
      status,
    ),
  ];
  if (options.follow !== null) parts.unshift(following(options.follow, on, (doc) => viewer.show([doc])));
  return h("div", { class: "live" }, ...parts);
}
