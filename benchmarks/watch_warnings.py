"""Whether a watch names the learning rate in trainings that it drives to divergence, and is silent in healthy ones.

Ten seeds, three kinds of loops (a plain one, `transformers.Trainer`, Lightning), two optimizers, digits and text: one
training with a rate at which it learns, one with a rate that is too high. `make bench-watch-warnings` takes about ten
minutes. Limits of the watch were set on other seeds and other models (see docs/watch.md).
"""

import argparse
import contextlib
import io
import json
import logging
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import orthoscope
from orthoscope.data.dataset import VOCABULARY, python_manual, read_digits
from orthoscope.files import replace
from orthoscope.models import resolve
from orthoscope.models.targets.timm_zoo import repair_torchvision
from orthoscope.watcher import Watch
from orthoscope_papers.results import provenance
from record import ROOT

SEEDS = range(10)
STEPS = 100
SAMPLES = 32
CONTEXT = 24
# The rate at which a task learns, and two that are tens and hundreds of times too high, alternating over seeds.
RATES: dict[tuple[str, str], tuple[float, float, float]] = {
    ("digits", "sgd"): (0.05, 1.0, 50.0),
    ("digits", "adamw"): (3e-3, 0.3, 3.0),
    ("text", "sgd"): (0.1, 1.0, 50.0),
    ("text", "adamw"): (3e-3, 0.3, 3.0),
}
ABOVE = 1.1  # times the loss of guessing, from where on a loss counts as above it
ROUNDS = 3
LOOPS = ("plain", "trainer", "lightning")


@dataclass(frozen=True)
class Row:
    """One training."""

    loop: str
    optimizer: str
    task: str
    seed: int
    rate: float
    healthy: bool
    passed: int | None  # first step whose loss is above that of guessing
    warned: int | None  # step of the warning that names the learning rate
    suggested: float | None
    first_loss: float
    last_loss: float | None  # median of the last ten; None if not finite
    other_warnings: tuple[str, ...]


class Classifier(nn.Module):
    """Logits and, with labels, their cross-entropy, as models of transformers are called; digits or characters."""

    def __init__(self, task: str) -> None:
        super().__init__()
        if task == "digits":
            hidden = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.ReLU())]
            self.network: nn.Module = nn.Sequential(*hidden, nn.Linear(64, 10))
        else:
            self.network = orthoscope.models.Transformer(
                depth=2, width=32, heads=2, vocabulary=VOCABULARY, length=CONTEXT
            )

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> dict[str, Tensor] | Tensor:
        """Return the logits, or a dict of the loss and the logits."""
        logits = self.network(inputs)
        if labels is None:
            return logits
        return {"loss": F.cross_entropy(logits.flatten(0, -2), labels.flatten()), "logits": logits}


class Samples(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Digits, or pieces of Python's manual with the next character as the label, drawn with a seed."""

    def __init__(self, task: str, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        count = STEPS * SAMPLES
        if task == "digits":
            pixels, labels = read_digits("train")
            chosen = torch.randint(len(pixels), (count,), generator=generator)
            self.inputs, self.labels = pixels[chosen].flatten(1).float() / 16, labels[chosen]
        else:
            text = python_manual("train")
            starts = torch.randint(len(text) - CONTEXT - 1, (count,), generator=generator)
            pieces = torch.stack([text[start : start + CONTEXT + 1] for start in starts])
            self.inputs, self.labels = pieces[:, :-1], pieces[:, 1:]

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


def optimizer_of(kind: str, model: nn.Module, rate: float) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    return torch.optim.AdamW(model.parameters(), rate)


def schedule(optimizer: torch.optim.Optimizer, seed: int) -> torch.optim.lr_scheduler.LambdaLR:
    """Warm-up over twenty steps for every third seed."""
    length = 20 if seed % 3 == 2 else 1
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / length))


def plain(model: Classifier, data: Samples, kind: str, rate: float, seed: int) -> Watch:
    optimizer = optimizer_of(kind, model, rate)
    scheduler = schedule(optimizer, seed)
    loader = torch.utils.data.DataLoader(data, batch_size=SAMPLES)
    with orthoscope.watch(model, every=50, logger=None) as watched:
        for batch in loader:
            optimizer.zero_grad()
            logits = model(batch["inputs"])
            assert isinstance(logits, Tensor)
            F.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten()).backward()
            optimizer.step()
            scheduler.step()
    return watched


def trainer(model: Classifier, data: Samples, kind: str, rate: float, seed: int) -> Watch:
    import transformers

    from orthoscope.watcher import TrainerCallback

    optimizer = optimizer_of(kind, model, rate)
    callback = TrainerCallback(every=50, logger=None)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=SAMPLES, report_to="none", disable_tqdm=True,
            use_cpu=True, save_strategy="no", logging_steps=10**6, seed=seed, max_grad_norm=0.0,
            label_names=["labels"],
        )  # fmt: skip
        transformers.Trainer(
            model,
            arguments,
            train_dataset=data,
            callbacks=[callback],
            optimizers=(optimizer, schedule(optimizer, seed)),
        ).train()
    assert callback.watch is not None
    return callback.watch


def in_lightning(model: Classifier, data: Samples, kind: str, rate: float, seed: int) -> Watch:
    import lightning

    from orthoscope.watcher import LightningCallback

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            logits = self.model(batch["inputs"])
            return F.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten())

        def configure_optimizers(self) -> Any:
            optimizer = optimizer_of(kind, self, rate)
            return [optimizer], [{"scheduler": schedule(optimizer, seed), "interval": "step"}]

    callback = LightningCallback(every=50, logger=None)
    lightning.Trainer(
        max_steps=STEPS, accelerator="cpu", logger=False, callbacks=[callback], enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    ).fit(Task(), torch.utils.data.DataLoader(data, batch_size=SAMPLES))  # fmt: skip
    assert callback.watch is not None
    return callback.watch


TRAIN: dict[str, Callable[..., Watch]] = {"plain": plain, "trainer": trainer, "lightning": in_lightning}


def passing(losses: list[tuple[int, float]], classes: int) -> int | None:
    """The first step whose loss is above that of guessing, and above that of the untrained network; or not finite."""
    limit = ABOVE * max(math.log(classes), losses[0][1])
    return next((step for step, loss in losses if not loss <= limit), None)


def row(loop: str, kind: str, seed: int, healthy: bool) -> Row:
    """Train once and read the watch."""
    task = ("digits", "text")[seed % 2]
    rate = RATES[task, kind][0 if healthy else 1 + seed // 2 % 2]
    torch.manual_seed(seed)
    model = Classifier(task)
    with quiet():
        watched = TRAIN[loop](model, Samples(task, seed), kind, rate, seed)
    losses = watched.losses
    found = [one for one in watched.warnings if one.kind == "learning rate"]
    last = median(loss for _, loss in losses[-10:])
    return Row(
        loop=loop,
        optimizer=kind,
        task=task,
        seed=seed,
        rate=rate,
        healthy=healthy,
        passed=passing(losses, 10 if task == "digits" else VOCABULARY),
        warned=found[0].step if found else None,
        suggested=found[0].suggestion if found else None,
        first_loss=losses[0][1],
        last_loss=last if math.isfinite(last) else None,
        other_warnings=tuple(one.kind for one in watched.warnings if one.kind != "learning rate"),
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Trainers talk and warn; that is theirs."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def counts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For every loop and optimizer: trainings that diverged, warnings in time, and false alarms."""
    found = []
    for loop in LOOPS:
        for kind in ("sgd", "adamw"):
            mine = [one for one in rows if (one["loop"], one["optimizer"]) == (loop, kind)]
            high, healthy = ([one for one in mine if one["healthy"] is which] for which in (False, True))
            late = [
                one for one in high if one["warned"] is None or one["passed"] is None or one["warned"] > one["passed"]
            ]
            found.append(
                {
                    "loop": loop,
                    "optimizer": kind,
                    "seeds": len(high),
                    "passed guessing": sum(one["passed"] is not None for one in high),
                    "warned in time": len(high) - len(late),
                    "healthy": len(healthy),
                    "false alarms": sum(one["warned"] is not None or bool(one["other_warnings"]) for one in healthy),
                }
            )
    return found


def spent(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def overhead() -> list[dict[str, Any]]:
    """Processor seconds of a step: without a watch, with one that reads no loss, and with one that does, in turns."""
    gpt = resolve("hf:gpt2(n_layer=6, n_embd=192, n_head=6, vocab_size=1000, n_positions=64)").build(
        torch.Generator().manual_seed(0)
    )
    small = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    networks: list[tuple[str, nn.Module, Tensor, int]] = [
        ("GPT-2 of 6 x 192, 16 x 64 tokens", gpt, torch.randint(1000, (16, 64)), 1),
        ("MLP of 64 x 64, 32 digits", small, torch.randn(32, 64), 100),
    ]
    found = []
    for name, model, inputs, repeats in networks:
        optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)

        def steps(
            model: nn.Module = model,
            inputs: Tensor = inputs,
            repeats: int = repeats,
            optimizer: torch.optim.Optimizer = optimizer,
        ) -> None:
            for _ in range(repeats):
                optimizer.zero_grad()
                output = model(inputs)
                (output if isinstance(output, Tensor) else output[0]).square().mean().backward()
                optimizer.step()

        times: dict[str, list[float]] = {"plain": [], "without_losses": [], "with_losses": []}
        steps()
        for _ in range(ROUNDS):
            times["plain"].append(spent(steps) / repeats)
            for key, losses in (("without_losses", False), ("with_losses", True)):
                with orthoscope.watch(
                    model, every=10**9, logger=None, losses=losses, profile=False, updates=not losses
                ):
                    steps()  # what is prepared once
                    times[key].append(spent(steps) / repeats)
        found.append({"network": name, **{key: median(values) for key, values in times.items()}})
        print(found[-1], flush=True)
    return found


def trainings() -> list[dict[str, Any]]:
    start, rows = time.perf_counter(), []
    for loop in LOOPS:
        for kind in ("sgd", "adamw"):
            for seed in SEEDS:
                rows += [asdict(row(loop, kind, seed, healthy)) for healthy in (True, False)]
            print(counts(rows), f"{time.perf_counter() - start:.0f} s", flush=True)
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=("trainings", "overhead"), help="measure this again, and keep the other")
    only = arguments.parse_args().only
    torch.set_num_threads(1)
    repair_torchvision()
    saved = ROOT / "results/benchmarks/watch_warnings.json"
    content = json.loads(saved.read_text()) if only else {}
    if only != "overhead":
        rows = trainings()
        content |= {**provenance(), "counts": counts(rows), "rows": rows}
    if only != "trainings":
        content["overhead"] = overhead()
    replace(saved, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
