"""Networks and batches for a diagnosis on several ranks, the same in every process, and how two results compare."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.rules import INSIDE


class Residual(nn.Module):
    """A convolutional block with batch norm, and a branch beside it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.relu(self.norm(self.first(x))))


class Attention(nn.Module):
    """A transformer's block: the token view, and tensors that FSDP hands on as views."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.norm = nn.LayerNorm(units)
        self.mix = nn.MultiheadAttention(units, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(x)
        y = self.norm(x)
        return x + self.mix(y, y, y, need_weights=False)[0]


class Tokens(nn.Module):
    """Ids to logits, with a position embedding that counts no samples and a head that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.position = nn.Embedding(5, 8)
        self.blocks = nn.Sequential(Attention(8), Attention(8))
        self.head = nn.Linear(8, 7)
        nn.init.zeros_(self.head.weight)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.position(torch.arange(ids.shape[1]))
        return self.head(self.blocks(x))


def perceptron() -> nn.Module:
    layers: list[nn.Module] = []
    for index in range(4):
        layers += [
            nn.Linear(9 if index == 0 else 17, 17),
            nn.BatchNorm1d(17) if index == 1 else nn.Identity(),
            nn.Tanh(),
        ]
    return nn.Sequential(*layers, nn.Linear(17, 3))


def convolutional() -> nn.Module:
    body = [nn.Conv2d(3, 6, 3), Residual(6), nn.ReLU(), Residual(6)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 4))


class Branching(nn.Module):
    """Calls one module or another, by what it is given: parts of a batch may go different ways."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(9, 3), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) if x[0, 0] > 0 else self.right(x)


def collapsed() -> nn.Module:
    """Every sample ends up the same: the path on which the inputs of a layer are looked at."""
    first = nn.Linear(9, 12)
    nn.init.zeros_(first.weight)
    return nn.Sequential(first, nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12))


def _images(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(samples, 3, 6, 6, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(4, (samples,), generator=generator)


def _vectors(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(samples, 9, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (samples,), generator=generator)


def _ids(samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    ids = torch.randint(11, (samples, 5), generator=generator)
    return ids, torch.randint(7, (samples, 5), generator=generator)


@dataclass(frozen=True)
class Case:
    build: Callable[[], nn.Module]
    batch: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[..., Tensor] | None = None
    sizes: tuple[int, ...] = (5, 3, 7, 4)  # samples on each rank, the first so many of them
    max_samples: int = 64
    dtype: torch.dtype = torch.float64

    def model(self) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.build().to(self.dtype)

    def parts(self, ranks: int) -> list[Any]:
        """The batch, cut: samples, and targets where there is a loss."""
        sizes = list(self.sizes[:ranks])
        inputs, target = self.batch(sum(sizes), torch.Generator().manual_seed(1))
        inputs = inputs.to(self.dtype) if inputs.is_floating_point() else inputs
        pieces = zip(inputs.split(sizes), target.split(sizes), strict=True)
        return [piece[0] if self.loss is None else piece for piece in pieces]

    def whole(self, ranks: int) -> Any:
        parts = self.parts(ranks)
        return torch.cat(parts) if self.loss is None else tuple(torch.cat(piece) for piece in zip(*parts, strict=True))


def _token_loss(logits: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


CASES = {
    "perceptron": Case(perceptron, _vectors),
    "perceptron with a loss": Case(perceptron, _vectors, nn.functional.cross_entropy),
    "some of many samples": Case(perceptron, _vectors, sizes=(25, 13, 31, 8), max_samples=9),
    "one sample a rank": Case(perceptron, _vectors, sizes=(1, 1, 1, 1)),
    "a rank without samples": Case(perceptron, _vectors, nn.functional.cross_entropy, sizes=(4, 0, 3, 4)),
    "single precision": Case(perceptron, _vectors, nn.functional.cross_entropy, dtype=torch.float32),
    "convolutions": Case(convolutional, _images, nn.functional.cross_entropy),
    "tokens": Case(Tokens, _ids),
    "tokens with a loss": Case(Tokens, _ids, _token_loss, sizes=(6, 2, 2, 6)),
    "collapsed": Case(collapsed, _vectors),
}
# Which of them so many ranks go through.
CASES_OF = {2: tuple(CASES), 4: ("a rank without samples", "tokens with a loss")}


def differences(found: Diagnosis, wanted: Diagnosis, tolerance: float) -> list[str]:
    """Every number, word and name in which two diagnoses differ."""
    differing = _differences("", _plain(found), _plain(wanted), tolerance)
    return [text for text in differing if text]


def _plain(diagnosis: Diagnosis) -> Any:
    # The loss of guessing, and what happens between modules, is not measured from parts: docs/method.md says so.
    omitted = {"finite loss", "initial loss", "loss fits outputs", *(rule.check for rule in INSIDE)}
    findings = [
        (f.check, f.state, f.severity, f.layer, f.measured) for f in diagnosis.findings if f.check not in omitted
    ]
    recording = dataclasses.replace(diagnosis.recording, initial_loss=None, attention=(), time=(), experts=())
    # Why a module has no row is told with its shape, which processes do not share; factors are unique up to signs.
    shared = {
        "unobserved": sorted(recording.unobserved),
        "factors": [(factor @ factor.mT / factor.square().sum()).tolist() for factor in recording.factors],
    }
    return {
        "recording": dataclasses.asdict(recording) | shared,
        "findings": {f[0]: (*f[1:4], f[4].value if f[4] else None) for f in findings},
        "name": diagnosis.name,
        "verdict": diagnosis.verdict,
    }


def _differences(where: str, found: Any, wanted: Any, tolerance: float) -> list[str]:
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        return [t for key in found for t in _differences(f"{where}.{key}", found[key], wanted[key], tolerance)]
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)) and len(found) == len(wanted):
        pairs = enumerate(zip(found, wanted, strict=True))
        return [t for index, (a, b) in pairs for t in _differences(f"{where}.{index}", a, b, tolerance)]
    if isinstance(found, float) and isinstance(wanted, float):
        # A singular value that is zero comes out of a Gram matrix as about 1e-8 of the largest.
        allowed = max(tolerance, 1e-6) if "rank" in where else tolerance
        close = math.isclose(found, wanted, rel_tol=allowed, abs_tol=allowed) or (found != found and wanted != wanted)
        return [] if close else [f"{where}: {found!r} is not {wanted!r}"]
    return [] if found == wanted else [f"{where}: {found!r} is not {wanted!r}"]
