"""The grid of the calibration: families of kind, activation, normalization and skips, at several depths and widths."""

import hashlib
import random
from dataclasses import dataclass, replace
from functools import cache

from orthoscope_papers.calibration.networks import Network
from orthoscope_papers.calibration.trainings import TASKS, Task

DEPTHS = {
    "mlp": (5, 8, 12, 20, 30, 40, 60, 80, 120, 200, 300),
    "resnet": (6, 12, 24, 40, 60, 100, 150),
    "convnet": (5, 8, 12, 16, 24),
    "transformer": (5, 6, 8, 12, 16),
}
WIDTHS = {
    "mlp": (32, 64, 96, 128, 256, 512),
    "resnet": (32, 64, 96, 128),
    "convnet": (16, 24, 32),
    "transformer": (32, 48),
}
# Most of depth times width squared: beyond it a training takes minutes. The narrowest is always allowed.
WORK = {"mlp": 1.4e6, "resnet": 1e6, "convnet": 6e3, "transformer": 1.8e4}

# What a family's weights are drawn by: a scheme and a gain. The last two are too small and too large.
WEIGHTS = (("he", 1.0), ("xavier", 1.0), ("orthogonal", 1.0), ("torch", 1.0), ("xavier", 0.6), ("he", 1.5))
NORMALIZED_WEIGHTS = (("he", 1.0), ("orthogonal", 1.0), ("torch", 1.0), ("xavier", 1.0))
_RECTIFIED = ("relu", "leaky_relu", "gelu", "silu")  # orthogonal weights get the gain √2
ACTIVATIONS = ("relu", "leaky_relu", "gelu", "silu", "tanh", "sin", "selu", "elu", "sigmoid", "identity")


@dataclass(frozen=True)
class Member:
    """A network of the grid on one of the tasks."""

    network: Network
    task: Task

    @property
    def held_out(self) -> bool:
        """True if nothing is fitted to its family: every second family, in the order of a hash."""
        return _ranks()[self.network.family] % 2 == 1


@cache
def grid() -> tuple[Member, ...]:
    """Return all members, always in this order."""
    members = [member for prototype, count in _families() for member in _family(prototype, count)]
    return tuple(dict.fromkeys([*members, *_cases()]))


@cache
def _ranks() -> dict[str, int]:
    """Number the families of each kind in the order of a hash of their names, independent of outcomes."""
    ranks: dict[str, int] = {}
    for kind in DEPTHS:
        names = {member.network.family for member in grid() if member.network.kind == kind}
        ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        ranks |= {name: rank for rank, name in enumerate(ordered)}
    return ranks


def _families() -> list[tuple[Network, int]]:
    """Return a prototype of every family, and how many members it has."""
    plain = [(Network("mlp", 5, 64, activation=name), 12) for name in ACTIVATIONS]
    normalized = [
        (Network("mlp", 5, 64, activation=name, norm=norm), 5)
        for name in ("relu", "leaky_relu", "gelu", "silu", "tanh", "sin", "identity")
        for norm in ("batch", "layer", "rms")
    ]
    after = [
        (Network("mlp", 5, 64, activation=name, norm=norm, order="activation-norm"), 5)
        for name in ("relu", "gelu", "tanh")
        for norm in ("batch", "layer")
    ]
    residual = [
        (Network("mlp", 5, 64, activation=name, norm=norm, residual=True), 5)
        for name in ("relu", "gelu", "tanh", "sin")
        for norm in ("none", "batch", "layer")
    ]
    blocks = [
        (Network("resnet", 6, 64, activation=name, norm=norm), 5)
        for name in ("relu", "gelu")
        for norm in ("none", "batch", "layer")
    ]
    maps = [
        (Network("convnet", 5, 16, activation=name, norm=norm, residual=skips), 4)
        for name in ("relu", "gelu", "tanh")
        for norm in ("none", "batch", "layer")
        for skips in ((False, True) if name == "relu" else (False,))
    ]
    attention = [
        (Network("transformer", 5, 32, activation=name, norm=norm), 5)
        for name in ("relu", "gelu", "silu", "tanh")
        for norm in ("pre", "post")
    ]
    return plain + normalized + after + residual + blocks + maps + attention


def _family(prototype: Network, count: int) -> list[Member]:
    """Spread depths evenly over the range; draw weights, widths, tasks and scales with the family's own seed."""
    dice = random.Random(prototype.family)
    depths, weights = DEPTHS[prototype.kind], list(_weights(prototype))
    dice.shuffle(weights)
    members = []
    for number in range(count):
        depth = depths[(2 * number + 1) * len(depths) // (2 * count)]
        scheme, gain = weights[number % len(weights)]
        if scheme == "orthogonal" and prototype.activation in _RECTIFIED:
            gain = 2**0.5
        network = replace(
            prototype,
            depth=depth,
            width=dice.choice(_widths(prototype.kind, depth)),
            init=scheme,
            weight_gain=gain,
            residual_scale=dice.choice((1.0, 0.3, 0.1)) if prototype.residual else 1.0,
            slope=dice.choice((0.01, 0.1, 0.3)) if prototype.activation == "leaky_relu" else prototype.slope,
        )
        members.append(Member(network, dice.choice(_tasks(network))))
    return members


def _weights(prototype: Network) -> tuple[tuple[str, float], ...]:
    scaled = prototype.norm == "none" or prototype.kind == "transformer" or prototype.residual
    return WEIGHTS if scaled else NORMALIZED_WEIGHTS


def _widths(kind: str, depth: int) -> list[int]:
    return [width for width in WIDTHS[kind] if depth * width**2 <= WORK[kind]] or [WIDTHS[kind][0]]


def _tasks(network: Network) -> tuple[Task, ...]:
    """Deep convolutional networks and Transformers see the smaller images only."""
    heavy = network.kind in ("convnet", "transformer") and network.depth > 6
    return TASKS[:1] if heavy else TASKS


def _cases() -> list[Member]:
    """Networks that simpler tools misjudge, at two depths each: see the table in docs/calibration.md."""
    pairs = []
    for depth in (50, 100):
        deep = Network("mlp", depth, 96)
        tailored = replace(deep, activation="leaky_relu", slope=0.6, init="orthogonal", weight_gain=1.2127)
        pairs += [
            tailored,
            replace(deep, init="lsuv"),
            replace(deep, init="he"),
            replace(deep, init="whitening"),
            replace(deep, activation="tanh", init="xavier"),
            replace(deep, activation="tanh", init="whitening"),
            replace(deep, norm="batch", init="he"),
            replace(deep, norm="batch", init="orthogonal", weight_gain=2**0.5),
            replace(deep, activation="tanh", gain=0.3, init="orthogonal"),
            replace(deep, activation="tanh", gain=0.3, norm="batch", init="orthogonal"),
            Network("resnet", depth, 96, norm="none", init="zero"),
            Network("resnet", depth, 96, norm="batch", init="zero"),
        ]
    return [Member(network, TASKS[number % 2]) for number, network in enumerate(pairs)]
