"""What is done to a family before it is trained, and the members that this makes.

Where an intervention has nothing to change, or changes nothing, the member does not exist. Every rule about that looks
at the network or at what the family says of itself, never at results.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import nn

from orthoscope_papers.calibration import changes
from orthoscope_papers.calibration.changes import Change
from orthoscope_papers.calibration.families import FAMILIES, Family, Settings, held_out
from orthoscope_papers.calibration.tasks import TASKS, Batch, Task

UNTOUCHED = "untouched"
OWN = Settings()
_TOO_LARGE = (255.0, 100.0)  # factor and shift of inputs that are not normalized


@dataclass(frozen=True)
class Intervention:
    """Settings to build with, a change of the network that is built, or of the inputs."""

    settings: Settings = OWN
    change: Change | None = None
    raw_inputs: bool = False


class Softmaxed(nn.Module):
    """A softmax, which the loss takes once more."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        probabilities: torch.Tensor = self.softmax(self.network(*args))
        return probabilities


SOFTMAX = "softmax before the loss"
SCALES = {f"weights x{factor:g}": Intervention(change=changes.scaled(factor)) for factor in (0.05, 0.3, 3.0, 5.0)}
OWN_WEIGHTS, DEFAULT_WEIGHTS = "weights as in torch", "weights of He"
INTERVENTIONS: dict[str, Intervention] = {
    UNTOUCHED: Intervention(),
    "depth x2": Intervention(Settings(depth=2)),
    "depth x4": Intervention(Settings(depth=4)),
    "depth x8": Intervention(Settings(depth=8)),
    "no normalization": Intervention(change=changes.unnormalized),
    "no normalization, depth x4": Intervention(Settings(depth=4), changes.unnormalized),
    "moved normalization": Intervention(Settings(moved=True)),
    "moved normalization, depth x4": Intervention(Settings(depth=4, moved=True)),
    **SCALES,
    "orthogonal weights": Intervention(change=changes.orthogonal),
    OWN_WEIGHTS: Intervention(change=changes.as_in_torch),
    DEFAULT_WEIGHTS: Intervention(change=changes.he),
    "branches x5": Intervention(change=changes.branches_times(5.0)),
    "branches x0.1": Intervention(change=changes.branches_times(0.1)),
    "gates of 0": Intervention(change=changes.gated(0.0)),
    "gates of 1e-6": Intervention(change=changes.gated(1e-6)),
    "frozen gates of 0": Intervention(change=changes.gated(0.0, frozen=True)),
    "one frozen zero layer": Intervention(change=changes.zero_and_frozen),
    "attention logits x10": Intervention(change=changes.attention_logits_times(10.0)),
    "attention logits x40": Intervention(change=changes.attention_logits_times(40.0)),
    "queries and keys x10": Intervention(change=changes.attention_logits_times(100.0)),
    "wrong softmax axis": Intervention(change=changes.wrong_axis()),
    "wrong softmax axis in one layer": Intervention(change=changes.wrong_axis(one=True)),
    "only the first token": Intervention(change=changes.first_token_only()),
    "only the first token in one layer": Intervention(change=changes.first_token_only(one=True)),
    "sigmoid": Intervention(change=changes.activations(nn.Sigmoid)),
    "sigmoid, depth x4": Intervention(Settings(depth=4), changes.activations(nn.Sigmoid)),
    "tanh, weights x5": Intervention(change=changes.activations(nn.Tanh, weights=5.0)),
    "shifted relu": Intervention(change=changes.activations(changes.ShiftedReLU)),
    "dead biases": Intervention(change=changes.dead_biases()),
    "dead biases in one layer": Intervention(change=changes.dead_biases(one=True)),
    SOFTMAX: Intervention(),
    "rank one": Intervention(change=changes.rank_one),
    "rank one in one layer": Intervention(change=changes.rank_one_in_one_layer),
    "repeated rows": Intervention(change=changes.repeated_rows),
    "detached in the middle": Intervention(change=changes.detached_in_the_middle),
    "detached before the head": Intervention(change=changes.detached_before_the_head),
    "raw inputs": Intervention(raw_inputs=True),
    "mostly frozen": Intervention(change=changes.mostly_frozen),
}


@dataclass(frozen=True)
class Member:
    """A family after an intervention."""

    family: str
    intervention: str

    @property
    def name(self) -> str:
        return f"{self.family}/{self.intervention}"

    @property
    def held_out(self) -> bool:
        """True if nothing is fitted to its family."""
        return self.family in held_out()

    @property
    def task(self) -> Task:
        return TASKS[FAMILIES[self.family].task]

    def built(self, seed: int) -> nn.Module:
        """Build the network of a seed, with its intervention."""
        return _built(self, seed)[0]

    @property
    def fault(self) -> str:
        """Name of the one module that the intervention puts a fault into; "" if there is no such module."""
        return _built(self, 0)[1] or ""

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield batches without end, the same for the same seed."""
        return batches(self.task, self.raw_inputs, seed)

    @property
    def raw_inputs(self) -> bool:
        """True if the inputs are not normalized."""
        return INTERVENTIONS[self.intervention].raw_inputs


def _built(member: Member, seed: int) -> tuple[nn.Module, str | None]:
    intervention = INTERVENTIONS[member.intervention]
    network = FAMILIES[member.family].network(intervention.settings, seed)
    if member.intervention == SOFTMAX:
        return Softmaxed(network), "softmax"
    if intervention.change is None:
        return network, ""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed + 1)
        return network, intervention.change(network)


def batches(task: Task, raw: bool, seed: int) -> Iterator[Batch]:
    """Yield batches of a task without end, with pixels as they are before normalization if `raw`."""
    for batch in task.batches(seed):
        yield _raw(batch) if raw else batch


def _raw(batch: Batch) -> Batch:
    """Pixels as they would be without normalization; images of a pair alike."""
    factor, shift = _TOO_LARGE
    shape = batch.args[0].shape
    changed = (factor * one + shift if one.shape == shape else one for one in batch.args)
    return replace(batch, args=tuple(changed))


@cache
def members() -> tuple[Member, ...]:
    """Return all members, family by family; no data is needed for that."""
    return tuple(
        Member(family.name, name) for family in FAMILIES.values() for name in INTERVENTIONS if _exists(family, name)
    )


def _exists(family: Family, name: str) -> bool:
    intervention, task = INTERVENTIONS[name], TASKS[family.task]
    settings = intervention.settings
    if settings.depth > family.deepest or (settings.moved and not family.movable):
        return False
    if name in SCALES:
        return name != _left_out(family)
    if name in (OWN_WEIGHTS, DEFAULT_WEIGHTS):
        return family.own_weights == (name == OWN_WEIGHTS)
    if name == SOFTMAX:
        return task.classifies
    if intervention.raw_inputs:
        return task.pictures
    if settings.moved or intervention.change is None:
        return True
    return _built(Member(family.name, name), seed=0)[1] is not None


def _left_out(family: Family) -> str:
    """One of the four scales, by a hash of the family's name."""
    names = list(SCALES)
    return names[int(hashlib.sha256(family.name.encode()).hexdigest(), 16) % len(names)]
