"""A network by name, ready to be built, shown a batch and diagnosed: what the command line works on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from orthoscope.diagnosis.alignment import Alignment, align
from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.findings import Symptom
from orthoscope.init import lsuv_
from orthoscope.models import TargetError, resolve, resolve_batch


@dataclass(frozen=True)
class Specimen:
    """A target with a title, how many samples it is shown, and what is done to its weights."""

    target: str
    title: str = ""
    samples: int = 64
    batch: str | None = None  # where the batch comes from; None: made up to fit
    unit_variance: bool = False  # every layer's weight and bias rescaled until its output has variance 1

    def diagnose(
        self,
        seed: int = 0,
        batch_statistics: bool = True,
        progress: Callable[[str, int], None] | None = None,
        deep: bool = False,
    ) -> Diagnosis:
        """Build, draw a batch, diagnose: the same for the same seed. Everything that fails is a TargetError.

        `progress` is told the module that was just measured and how many measurements there are about.
        """
        generator = torch.Generator().manual_seed(seed)
        target = resolve(self.target)
        source = target.batch if self.batch is None else resolve_batch(self.batch)
        model = target.build(generator)
        batch = source(self.samples, generator)
        expected = 2 * sum(1 for _ in model.modules())
        try:
            if self.unit_variance:
                lsuv_(model, batch, tolerance=0.0, start=None)
            return diagnose(
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

    def align(self, seed: int = 0, **options: Any) -> Alignment:
        """Build, draw a batch, and measure how residual blocks align; options are those of `align`."""
        generator = torch.Generator().manual_seed(seed)
        target = resolve(self.target)
        source = target.batch if self.batch is None else resolve_batch(self.batch)
        model = target.build(generator)
        batch = source(self.samples, generator)
        try:
            return align(model, batch, name=self.title or self.target, seed=seed, **options)
        except ValueError:
            raise  # it says what to do
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> TargetError:
        what = str(error).strip().splitlines()
        return TargetError(
            f"{self.target!r} fails on its batch with {type(error).__name__}: {what[0] if what else 'no message'}"
            "; give a batch that fits with --batch, or see where with --traceback"
        )


def symptoms_named(text: str) -> frozenset[Symptom]:
    """Symptoms from a comma-separated list; "any" is all of them, nothing is none."""
    names = {str(symptom).replace(" ", "-"): symptom for symptom in Symptom}
    wanted = [name.strip().lower().replace(" ", "-") for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in names and name != "any"]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no symptom: choose from {', '.join(names)}, or any")
    return frozenset(Symptom) if "any" in wanted else frozenset(names[name] for name in wanted)
