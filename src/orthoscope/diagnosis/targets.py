"""Networks by name, for the command line and `orthoscope explore`: built, given a batch, diagnosed with every seed."""

import itertools
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from orthoscope.diagnosis.alignment import Alignment, align
from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.findings import Symptom
from orthoscope.init import lsuv_
from orthoscope.models import TargetError, resolve, resolve_batch
from orthoscope.report.document import DiagnosisDocument, SeedRange, Seeds, quantities


@dataclass(frozen=True)
class NamedNetwork:
    """A target with a title, the size of its batch, and what is done to its weights.

    Attributes:
        target: What `orthoscope.models.resolve` understands.
        title: What the network is called in reports; the target by default.
        samples: Samples in a batch that is made up.
        batch: Where the batch comes from, as for `orthoscope.models.resolve_batch`; None: made up to fit.
        unit_variance: Whether every layer is rescaled until its output has variance 1 (LSUV).
    """

    target: str
    title: str = ""
    samples: int = 64
    batch: str | None = None
    unit_variance: bool = False

    def diagnose(
        self,
        seed: int = 0,
        batch_statistics: bool = True,
        progress: Callable[[str, int], None] | None = None,
        deep: bool = False,
        details: bool = True,
    ) -> Diagnosis:
        """Build the network, draw a batch, diagnose: the same for the same seed.

        Args:
            seed: Of the weights, the batch, and the direction that is differentiated.
            batch_statistics: As for `diagnose`.
            progress: Called with the module that was just measured and the approximate number of measurements.
            deep: As for `diagnose`.
            details: Whether to compute what a page draws of the weights, before the network is freed.

        Raises:
            TargetError: If anything fails.
        """
        model, batch = self._built(seed)
        expected = 2 * sum(1 for _ in model.modules())
        try:
            if self.unit_variance:
                lsuv_(model, batch, tolerance=0.0, start=None)
            diagnosis = diagnose(
                model,
                batch,
                name=self.title or self.target,
                max_samples=max(64, self.samples),
                batch_statistics=batch_statistics,
                seed=seed,
                deep=deep,
                progress=None if progress is None else lambda module: progress(module, expected),
            )
        except Exception as error:  # the user's network may raise anything
            raise self._failure(error) from error
        if not self.unit_variance:
            diagnosis = replace(diagnosis, fix_command=self._fix_command(seed))
        if details:
            diagnosis.compute_details()  # the model is freed on return
        return diagnosis

    def _fix_command(self, seed: int) -> str:
        options = {"--batch": self.batch, "--samples": self.samples, "--seed": seed}
        plain = {"--batch": None, "--samples": NamedNetwork.samples, "--seed": 0}
        given = [word for name, value in options.items() if value != plain[name] for word in (name, str(value))]
        return shlex.join(["orthoscope", "fix", self.target, *given])

    def align(self, seed: int = 0, **options: Any) -> Alignment:
        """Build the network, draw a batch, and measure how its residual blocks align; options are those of `align`."""
        model, batch = self._built(seed)
        try:
            return align(model, batch, name=self.title or self.target, seed=seed, **options)
        except ValueError:
            raise  # it says what to do
        except Exception as error:
            raise self._failure(error) from error

    def _built(self, seed: int) -> tuple[nn.Module, Any]:
        generator = torch.Generator().manual_seed(seed)
        target = resolve(self.target)
        source = target.batch if self.batch is None else resolve_batch(self.batch)
        model = target.build(generator)
        return model, source(self.samples, generator)

    def _failure(self, error: Exception) -> TargetError:
        what = str(error).strip().splitlines()
        return TargetError(
            f"{self.target!r} fails on its batch with {type(error).__name__}: {what[0] if what else 'no message'}"
            "; give another batch with --batch, or add --traceback to see the line that fails"
        )


# Sick, healthy, and those that tools that watch variance call healthy.
GALLERY: tuple[NamedNetwork, ...] = (
    NamedNetwork(
        "mlp(depth=50, activation=relu, init=he, bias=True, bias_std=0.4)",
        "ReLU 50, variance 1 everywhere",
        samples=100,
        unit_variance=True,
    ),
    NamedNetwork("mlp(depth=50, activation=relu, init=he)", "ReLU 50, He weights", samples=100),
    NamedNetwork(
        "mlp(depth=50, activation=relu, init=torch, bias=True)",
        "ReLU 50, PyTorch's weights",
        samples=100,
    ),
    NamedNetwork("mlp(depth=20, activation=sigmoid, init=xavier)", "sigmoid 20, Xavier weights", samples=100),
    NamedNetwork("mlp(depth=50, activation=tanh, init=xavier)", "tanh 50, Xavier weights", samples=100),
    NamedNetwork(
        "mlp(depth=200, width=512, activation=identity, norm=batch, init=gaussian)",
        "batch norm 200, batch of 8",
        samples=8,
    ),
    NamedNetwork("mlp(depth=50, activation=relu, norm=batch)", "batch norm 50, ReLU", samples=100),
    NamedNetwork(
        "mlp(depth=50, activation=tanh, gain=0.3, init=orthogonal)",
        "tanh 50, gain 0.3, orthogonal",
        samples=100,
    ),
    NamedNetwork(
        "mlp(depth=50, activation=tanh, gain=0.3, norm=batch, init=orthogonal)",
        "tanh 50, orthogonal, batch norm",
        samples=100,
    ),
    NamedNetwork(
        "mlp(depth=50, activation=relu, norm=layer, residual=True, residual_scale=0.2)",
        "residual 50, layer norm, ReLU",
        samples=100,
    ),
    NamedNetwork("convnet(depth=20, channels=32, init=he)", "convolutions 20, He weights", samples=32),
    NamedNetwork("transformer(depth=8, width=64, heads=4)", "transformer 8, pre-norm", samples=32),
)


def diagnosed(
    networks: Sequence[NamedNetwork],
    seeds: range,
    batch_statistics: bool,
    deep: bool,
    details: bool,
    advance: Callable[[float, str], None],
) -> Iterator[DiagnosisDocument | TargetError]:
    """Yield the document of every network, or why it could not be diagnosed.

    `advance` is called with the share that is done, and what is going on.
    """
    for number, network in enumerate(networks):
        share, done = number / len(networks), itertools.count(1)

        def progress(module: str, expected: int, share: float = share, done: Iterator[int] = done) -> None:
            part = min(1.0, next(done) / expected / len(seeds))
            advance(share + part / len(networks), module or "the whole network")

        advance(share, network.title or network.target)
        try:
            drawn = [
                network.diagnose(seed, batch_statistics, progress, deep, details).as_document(details) for seed in seeds
            ]
            yield drawn[0] if len(drawn) == 1 else with_seeds(drawn, seeds)
        except TargetError as error:
            yield error


def symptoms_named(text: str) -> frozenset[Symptom]:
    """Symptoms from a comma-separated list; "any" is all of them, nothing is none."""
    names = {str(symptom).replace(" ", "-"): symptom for symptom in Symptom}
    wanted = [name.strip().lower().replace(" ", "-") for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in names and name != "any"]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no symptom: choose from {', '.join(names)}, or any")
    return frozenset(Symptom) if "any" in wanted else frozenset(names[name] for name in wanted)


def with_seeds(documents: Sequence[DiagnosisDocument], seeds: Sequence[int]) -> DiagnosisDocument:
    """Return the first document with the field `seeds`: verdicts, and the range of every layer's main numbers.

    A range is from the least to the largest over seeds where the number is defined; null where it never is.
    """
    names = [[(layer.name, layer.call) for layer in document.layers] for document in documents]
    if any(other != names[0] for other in names):
        raise ValueError("networks of different seeds called different modules: diagnose them one by one")
    return replace(
        documents[0],
        seeds=Seeds(
            seeds=tuple(seeds),
            verdicts=tuple(document.verdict for document in documents),
            gaps=tuple(document.gap for document in documents),
            slopes=tuple(document.slope.value for document in documents),
            ranges={one.key: _range(documents, one.key) for one in quantities("layer") if one.is_main},
        ),
    )


def _range(documents: Sequence[DiagnosisDocument], key: str) -> SeedRange:
    columns = zip(*([layer.measured(key) for layer in document.layers] for document in documents), strict=True)
    defined = [[value for value in column if value is not None] for column in columns]
    return SeedRange(
        low=tuple(min(values, default=None) for values in defined),
        high=tuple(max(values, default=None) for values in defined),
    )
