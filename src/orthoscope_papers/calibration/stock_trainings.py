"""Short trainings of stock architectures: does one that is called sick really fail?

A network is trained on a few batches of its own data by AdamW at three learning rates, and *trains* if its best loss
shows at least half of what a well-known architecture of the same task learns in as many steps, beyond the best constant
prediction.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.prescriptions.confirmation import trained
from orthoscope.training import minibatches, train
from orthoscope_papers.calibration.stock_list import Architecture, covered
from orthoscope_papers.calibration.stock_networks import IGNORED, Stock

RATES = (1e-4, 1e-3, 1e-2)
SAMPLES, BATCH, STEPS = 64, 16, 80
# By the task and the main input: a well-known architecture of the list.
_REFERENCES = {
    ("classes", "x"): "resnet/resnet",
    ("classes", "pixel_values"): "resnet/resnet",
    ("classes", "input_values"): "wav2vec2",
    ("classes", "input_features"): "wav2vec2",
    ("next token", "input_ids"): "gpt2",
    ("next token", "input_features"): "whisper",
    ("next token", "input_values"): "whisper",
    ("masked tokens", "input_ids"): "bert",
    ("pairs", "input_ids"): "clip",
}


class Proof(NamedTuple):
    """Losses at the end by learning rate, of the best constant prediction, and of the reference. nan: not trained."""

    loss_low: float
    loss_middle: float
    loss_high: float
    guessing: float
    reference: float
    trains: int  # 1, 0, or -1 if that cannot be said


UNTRAINED = Proof(math.nan, math.nan, math.nan, math.nan, math.nan, -1)


class _OnRows(nn.Module):
    """The network as a function of row numbers, so that one loop trains networks of any arguments."""

    def __init__(self, stock: Stock) -> None:
        super().__init__()
        self.model, self.stock = stock.model, stock

    def forward(self, rows: Tensor) -> object:
        return self.stock.call({name: tensor[rows] for name, tensor in self.stock.arguments.items()})


def train_proof(one: Architecture, dataset: str, steps: int = STEPS) -> Proof:
    """Train an architecture, and say whether it trains; without a loss nothing can be said."""
    stock = one.build(dataset, SAMPLES)
    if stock.loss is None or stock.targets is None:
        return UNTRAINED
    ends = _losses(lambda: one.build(dataset, SAMPLES), steps)
    guessing = _guessing(stock.targets)
    reference = _reference(stock.task, next(iter(stock.arguments)), dataset, steps)
    if not reference < guessing:
        return Proof(*ends, guessing, reference, -1)
    return Proof(*ends, guessing, reference, int(trained(min(ends), reference, guessing)))


def _losses(make: Callable[[], Stock], steps: int) -> tuple[float, float, float]:
    low, middle, high = (_final_loss(make(), rate, steps) for rate in RATES)
    return low, middle, high


def _final_loss(stock: Stock, rate: float, steps: int) -> float:
    """Mean training loss over the last ten steps; infinite if training diverged."""
    loss, targets, rows = stock.loss, stock.targets, torch.arange(SAMPLES)
    assert loss is not None
    assert targets is not None
    epoch = minibatches(rows, rows, BATCH, torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(stock.model.parameters(), lr=rate)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)  # for dropout
        done = train(_OnRows(stock), epoch, optimizer, steps=steps, loss=lambda out, at: loss(out, targets[at]))
    return done.final()


def _guessing(targets: Tensor) -> float:
    """Cross entropy of the best constant prediction: the entropy of the targets."""
    counts = targets[targets != IGNORED].unique(return_counts=True)[1].double()
    shares = counts / counts.sum()
    return float(-(shares * shares.log()).sum())


@cache
def _reference(task: str, main_input: str, dataset: str, steps: int) -> float:
    """Return the best loss of the well-known architecture of a task; nan if the list has none."""
    family = _REFERENCES.get((task, main_input))
    known = next((one for one in covered() if one.family == family), None)
    return math.nan if known is None else min(_losses(lambda: known.build(dataset, SAMPLES), steps))
