"""The same methods beside a process that keeps both cores busy: does a ratio survive a machine that is not idle?

`make bench-busy` takes about two minutes and writes docs/busy_benchmark.md. What sets threads of its own fights with
torch's on such a machine; plain torch operations slow down as the peer's do.
"""

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

import gradient_steps
import weight_maps
from busy_page import page
from gradients_page import MIXED
from record import record
from timing import alternating

ROUNDS = 9
PATIENCE = 10.0  # seconds a method
# Our map, torch's, and the shape.
MAPS = [
    ("householder", "householder", (512, 512)),
    ("householder", "householder", (2048, 256)),
    ("cayley", "cayley", (512, 512)),
    ("cayley", "cayley", (2048, 256)),
    ("exponential", "matrix_exp", (512, 512)),
]
STEPS = ("orthoscope Muon", "the quintic loop in float32")


def multiply_forever() -> None:
    """Products with two threads, without a pause."""
    torch.set_num_threads(2)
    matrix = torch.randn(512, 512)
    while True:
        matrix @ matrix


@contextlib.contextmanager
def neighbor(busy: bool) -> Iterator[None]:
    """Another process that keeps the machine busy, or none."""
    if not busy:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=multiply_forever, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def pairs() -> Iterator[tuple[str, str, str, Callable[[], object], Callable[[], object]]]:
    """Where, our method, the peer's, and a call of each."""
    for name, peer, (rows, columns) in MAPS:
        gradient: Tensor = torch.randn(rows, columns, generator=torch.Generator().manual_seed(2))
        weights = weight_maps.ours(rows, columns, name), weight_maps.torch_map(rows, columns, peer)
        ours, theirs = (partial(weight_maps.gradient_step, weight, gradient) for weight in weights)
        yield f"{rows} x {columns}", name, f"torch {peer}", ours, theirs
    sizes = gradient_steps.SETS[MIXED]
    optimizers = gradient_steps.optimizers(sizes)
    ours, theirs = (optimizers[method](gradient_steps.parameters(sizes)).step for method in STEPS)
    yield MIXED, "Muon", STEPS[1], ours, theirs


def table() -> list[dict[str, Any]]:
    """Seconds of both, with and without a neighbor."""
    found = []
    for where, name, peer, ours, theirs in pairs():
        row: dict[str, Any] = {"where": where, "ours": name, "peer": peer}
        for state in ("quiet", "busy"):
            with neighbor(state == "busy"):
                costs = alternating({"ours": ours, "theirs": theirs}, ROUNDS, patience=PATIENCE)
            row[state] = {method: cost.seconds for method, cost in costs.items()}
        found.append(row)
    return found


if __name__ == "__main__":
    record("busy", __doc__, {"pairs": table}, page)
