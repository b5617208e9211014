"""What it costs to watch a training: a step that is looked at beside a plain one. Writes the page and its numbers.

`make bench-watch` takes about five minutes on one thread. Times are of the processor, so that neighbors on the machine
count for little; on a quiet machine with one thread they are those of the clock.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import orthoscope
from orthoscope.models import resolve
from record import record
from watch_page import page

ROUNDS = 7
EVERY = 200


def spent(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def stepping(model: nn.Module, inputs: Tensor) -> Callable[[], None]:
    """A step of training with momentum; the loss is a square, which any output has."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        output = model(inputs)
        (output if isinstance(output, Tensor) else output[0]).square().mean().backward()
        optimizer.step()

    return step


def networks() -> dict[str, tuple[nn.Module, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    resnet = resolve("timm:resnet18").build(generator)
    gpt = resolve("hf:gpt2(n_layer=6, n_embd=192, n_head=6, vocab_size=1000, n_positions=64)").build(generator)
    return {
        "ResNet-18, 64 images of 64 x 64": (resnet, torch.randn(64, 3, 64, 64, generator=generator)),
        "ResNet-18, 16 images of 64 x 64": (resnet, torch.randn(16, 3, 64, 64, generator=generator)),
        "GPT-2 of 6 x 192, 16 x 64 tokens": (gpt, torch.randint(1000, (16, 64), generator=generator)),
    }


def looks() -> list[dict[str, Any]]:
    """Plain steps and steps that are looked at, in turns; the log is written too."""
    rows = []
    for name, (model, inputs) in networks().items():
        step = stepping(model, inputs)
        plain, looked = [], []
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "run.jsonl"
            spent(step)
            for _ in range(ROUNDS):
                plain.append(spent(step))
                with orthoscope.watch(model, every=1, logger=None, log=log) as watched:
                    looked.append(spent(step))
                assert len(watched.history) == 1, watched.problems
            size = log.stat().st_size / ROUNDS
        with orthoscope.watch(model, every=1, logger=None, profile=False, updates=True):
            updates = spent(step)
        rows.append(
            {
                "network": name,
                "plain": statistics.median(plain),
                "plain_spread": max(plain) / min(plain),
                "looked_at": statistics.median(looked),
                "updates": updates,
                "kilobytes": size / 1000,
            }
        )
        print(rows[-1], flush=True)
    return rows


def idle() -> float:
    """Seconds that a watch adds to a step at which it does not look: on a network too small to hide them."""
    model = nn.Linear(2, 2)
    step = stepping(model, torch.ones(2, 2))

    def steps() -> None:
        for _ in range(200):
            step()

    plain, watched = [], []
    for _ in range(15):
        plain.append(spent(steps))
        with orthoscope.watch(model, every=10**9, logger=None):
            step()
            watched.append(spent(steps))
    return (statistics.median(watched) - statistics.median(plain)) / 200


def alone(part: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        torch.set_num_threads(1)
        return part()

    return run


def main() -> None:
    parts = {"idle": alone(idle), "looks": alone(looks), "every": lambda: EVERY}
    record("watch", __doc__, parts, page)


if __name__ == "__main__":
    main()
