"""What several documents hold: the environment, sources of a prediction, what was left out, a prescription."""

from dataclasses import dataclass
from typing import Annotated

from orthoscope.findings import Verdict
from orthoscope.report.document.conversion import Number, Part

NOT_NEGATIVE, POSITIVE = {"minimum": 0}, {"minimum": 1}


@dataclass(frozen=True, kw_only=True)
class Environment(Part):
    """What the numbers were made with."""

    orthoscope: Annotated[str, "Version of Orthoscope."]
    python: Annotated[str, "Version of Python."]
    torch: Annotated[str, "Version of PyTorch."]
    platform: Annotated[str, "Operating system and processor, as Python names them."]
    threads: Annotated[int, "Threads that PyTorch used.", NOT_NEGATIVE]


@dataclass(frozen=True, kw_only=True)
class Source(Part):
    """A statement that a prediction rests on."""

    source: Annotated[str, "Place in the literature."]
    assumes: Annotated[str, "What must hold for it."]


@dataclass(frozen=True, kw_only=True)
class Omission(Part):
    """A module, parameter or branch that was left out."""

    name: Annotated[str, "Its name."]
    reason: Annotated[str, "Why it was left out."]


@dataclass(frozen=True, kw_only=True)
class Effect(Part):
    """A place in the trainability plane."""

    gap: Annotated[Number | None, "Orthogonality gap; null if unknown."]
    slope: Annotated[Number | None, "Gradient slope; null if unknown."]
    reason: Annotated[str | None, "Why something is unknown; null if nothing is."]


@dataclass(frozen=True, kw_only=True)
class Prescription(Part):
    """One change of the network, or advice for the training loop, and what became of it."""

    name: Annotated[str, "What it is called."]
    why: Annotated[str, "One sentence: why it should help."]
    code: Annotated[str, "Code that makes the change."]
    advice: Annotated[bool, "Whether it is for the training loop, not for the model."]
    architecture: Annotated[bool, "Whether modules are replaced or added."]
    predicted: Annotated[Effect, "Where theory expects the network after the change."]
    measured: Annotated[Effect | None, "Where it was measured; null if it was not tried."]
    verdict: Annotated[Verdict | None, "Verdict after the change; null if it was not tried."]
    outcome: Annotated[str, "Whether it was kept, or why not."]
