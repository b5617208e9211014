"""One look at a network in training: its diagnosis on the batch of that step, a few scalars, a line of a log."""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.diagnosis.checks import ENOUGH_DIRECTIONS, gradient_profile
from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.expectations import Expectation
from orthoscope.diagnosis.rules import RULES, judge
from orthoscope.findings import Verdict
from orthoscope.probe import Layer, record
from orthoscope.probe.batches import Call
from orthoscope.probe.modules import class_name, unwrapped
from orthoscope.probe.record import Loss
from orthoscope.watcher._updates import UpdateRow

PREFIX = "orthoscope/"
_TRAINED = "the weights are in training: theory speaks of random ones"


@dataclass(frozen=True)
class WatchRecord:
    """What was seen after so many steps; of all but the latest look, only this much is kept in memory."""

    step: int  # optimizer steps taken before it
    verdict: Verdict
    summary: str
    scalars: dict[str, float]
    seconds: float


def checkup(model: nn.Module, call: Call, loss: Loss | None, batch_statistics: bool) -> Diagnosis:
    """A diagnosis of a network in training: measured and judged as at its start, but theory has nothing to say."""
    start = time.perf_counter()
    with _own_casts():
        recording = record(model, call, loss, batch_statistics=batch_statistics)
    return Diagnosis(
        name=class_name(unwrapped(model)),
        recording=recording,
        findings=tuple(judge(rule, recording) for rule in RULES),
        gradients=gradient_profile(recording),
        expected=Expectation(refusal=_TRAINED),
        seconds=time.perf_counter() - start,
    )


@contextlib.contextmanager
def _own_casts() -> Iterator[None]:
    """Autocast keeps the weights that it has cast: those of a look belong to another graph than the loop's."""
    kept = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(kept)


def own_loss(output: Any) -> Tensor:
    """The loss that a model of transformers computes when called with labels: `output.loss`, or the first of them."""
    loss = output["loss"] if isinstance(output, Mapping) and "loss" in output else getattr(output, "loss", None)
    if loss is None and isinstance(output, tuple):
        loss = output[0]
    if not isinstance(loss, Tensor):
        raise ValueError(f"labels were given, but the output, {type(output).__name__}, has no loss: give watch loss=")
    return loss


def profile_scalars(diagnosis: Diagnosis) -> dict[str, float]:
    """At most six numbers that say how the network is; those that are undefined or infinite are left out.

    Gaps and ranks are of the layers where samples can have as many directions as the rules call enough, or as
    anywhere if that is less: `worst_gap` the largest orthogonality gap, `min_effective_rank` the least effective rank,
    `mean_overlap` the mean cosine of two samples at the last of them. `gradient_slope` is the log-gradient per weight
    layer toward the input, `risk` that of a network like this not to train, and `record_seconds` what the look took.
    """
    telling = _telling_layers(diagnosis)
    numbers = {
        "worst_gap": max((layer.gap for layer in telling), default=math.nan),
        "min_effective_rank": min((layer.effective_rank for layer in telling), default=math.nan),
        "mean_overlap": telling[-1].overlap if telling else math.nan,
        "gradient_slope": diagnosis.slope,
        "risk": diagnosis.risk,
        "record_seconds": diagnosis.seconds,
    }
    return {PREFIX + name: value for name, value in numbers.items() if math.isfinite(value)}


def _telling_layers(diagnosis: Diagnosis) -> list[Layer]:
    """A head with three units has a gap by its shape alone, and no more than three directions."""
    measured = [layer for layer in diagnosis.layers if layer.sample_view is not None]
    enough = min(ENOUGH_DIRECTIONS, max((layer.capacity for layer in measured), default=0))
    return [layer for layer in measured if layer.capacity >= enough]


def update_scalars(rows: Sequence[UpdateRow]) -> dict[str, float]:
    """`largest_update`: the largest ‖ΔW‖/‖W‖ of the matrices of a step, if any is defined."""
    sizes = [row.relative_size for row in rows if math.isfinite(row.relative_size)]
    return {PREFIX + "largest_update": max(sizes)} if sizes else {}
