"""One snapshot of a network in training: its diagnosis on the batch of that step, a few scalars, a line of a log."""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.diagnosis.checks import ENOUGH_DIRECTIONS
from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.expectations import Expectation
from orthoscope.diagnosis.rules import findings_of
from orthoscope.probe import Layer, record
from orthoscope.probe.hooks import class_name, unwrapped
from orthoscope.probe.losses import Loss
from orthoscope.probe.samples import Call
from orthoscope.watcher._updates import UpdateRow

PREFIX = "orthoscope/"
_TRAINED = "the weights are in training, and theory is of random weights"


def checkup(model: nn.Module, call: Call, loss: Loss | None, batch_statistics: bool) -> Diagnosis:
    """Diagnose a network in training: measured and judged as at initialization, but without predictions by theory."""
    start = time.perf_counter()
    with _own_casts():
        recording = record(model, call, loss, batch_statistics=batch_statistics)
    return Diagnosis(
        name=class_name(unwrapped(model)),
        recording=recording,
        findings=findings_of(recording),
        expected=Expectation(refusal=_TRAINED),
        seconds=time.perf_counter() - start,
    )


@contextlib.contextmanager
def _own_casts() -> Iterator[None]:
    """Disable the weight cache of autocast: weights cast for the snapshot belong to another autograd graph."""
    kept = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(kept)


def own_loss(output: Any) -> Tensor:
    """The loss that a model of transformers computes when called with labels: `output.loss`, or the first output."""
    loss = output["loss"] if isinstance(output, Mapping) and "loss" in output else getattr(output, "loss", None)
    if loss is None and isinstance(output, tuple):
        loss = output[0]
    if not isinstance(loss, Tensor):
        raise ValueError(
            f"the batch has labels, but the output ({type(output).__name__}) has no loss: pass loss= to watch"
        )
    return loss


def profile_scalars(diagnosis: Diagnosis) -> dict[str, float]:
    """At most six scalars that describe the network; undefined and infinite ones are left out.

    Gaps and ranks are of the layers where samples can have as many directions as the rules call enough, or the most
    that any layer allows: `worst_gap` is the largest orthogonality gap, `min_effective_rank` the least effective rank,
    `mean_overlap` the mean cosine of two samples at the last such layer. `gradient_slope` is the growth of the
    log-gradient per weight layer toward the input, `risk` the probability that a network like this does not train, and
    `record_seconds` the duration of the snapshot.
    """
    wide = _wide_layers(diagnosis)
    numbers = {
        "worst_gap": max((layer.gap for layer in wide), default=math.nan),
        "min_effective_rank": min((layer.effective_rank for layer in wide), default=math.nan),
        "mean_overlap": wide[-1].overlap if wide else math.nan,
        "gradient_slope": diagnosis.slope,
        "risk": diagnosis.risk,
        "record_seconds": diagnosis.seconds,
    }
    return {PREFIX + name: value for name, value in numbers.items() if math.isfinite(value)}


def _wide_layers(diagnosis: Diagnosis) -> list[Layer]:
    """Measured layers without those, such as a head of three units, whose gap is determined by their shape."""
    measured = [layer for layer in diagnosis.layers if layer.sample_view is not None]
    enough = min(ENOUGH_DIRECTIONS, max((layer.capacity for layer in measured), default=0))
    return [layer for layer in measured if layer.capacity >= enough]


def update_scalars(rows: Sequence[UpdateRow]) -> dict[str, float]:
    """`largest_update`: the largest ‖ΔW‖/‖W‖ of the matrices of a step, if any is defined."""
    sizes = [row.relative_size for row in rows if math.isfinite(row.relative_size)]
    return {PREFIX + "largest_update": max(sizes)} if sizes else {}
