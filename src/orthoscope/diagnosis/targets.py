"""A network by name: built, given a batch and diagnosed; used by the command line and `orthoscope explore`."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from orthoscope.diagnosis.alignment import Alignment, align
from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.init import lsuv_
from orthoscope.models import TargetError, resolve, resolve_batch


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
