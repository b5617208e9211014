"""One row of a recording: what was measured at one call of one module."""

from dataclasses import dataclass
from enum import StrEnum

from orthoscope.probe.pictures import Picture


class Status(StrEnum):
    """What kind of representation came out of a module; only `measured` ones have metrics."""

    MEASURED = "measured"
    ZERO_BY_DESIGN = "zero by design"  # a branch whose last weight starts at zero
    DEAD = "dead"  # exactly zero although nothing asked for it
    CONSTANT = "does not depend on the batch"  # position embeddings and the like
    NOT_FINITE = "not finite"


@dataclass(frozen=True)
class Representation:
    """Metrics of samples (or tokens): see `orthoscope.metrics`, where each number is defined. nan: undefined."""

    gap: float
    isometry_gap: float  # infinite: rank-deficient
    effective_rank: float
    stable_rank: float
    numerical_rank: float
    overlap: float
    mean_energy: float
    centred_gap: float
    centred_effective_rank: float
    centred_overlap: float


@dataclass(frozen=True)
class Layer:
    """A module's output at one call. Gradient norms are over the whole batch, all else over `samples` of it.

    `depth` counts weight layers from the input.
    """

    index: int
    name: str
    call: int  # 0 for the first call of this module in the pass
    kind: str
    depth: int | None  # None for modules without a weight matrix
    shape: tuple[int, ...]
    samples: int  # rows the metrics were taken over
    units: int
    status: Status
    rms: float
    sample_view: Representation | None
    token_view: Representation | None
    gradient_norm: float | None  # of the loss with respect to this output; None: not observed
    weight_gradient_norm: float | None
    also: tuple[str, ...] = ()  # modules that passed the very same tensor on
    trainable: bool = False  # whether any parameter of its own asks for a gradient
    tokens: int = 0  # tokens of a sequence that were compared; 0 without a token view
    picture: Picture | None = None  # of the samples, where asked for

    @property
    def capacity(self) -> int:
        """Most directions that the samples can have here: as many as there are of them, at most the units."""
        return min(self.samples, self.units)

    @property
    def rank_deficient(self) -> bool:
        """Whether the samples are linearly dependent here, to float64."""
        return self.isometry_gap == float("inf")

    @property
    def gap(self) -> float:
        return self._of_samples("gap")

    @property
    def isometry_gap(self) -> float:
        return self._of_samples("isometry_gap")

    @property
    def effective_rank(self) -> float:
        return self._of_samples("effective_rank")

    @property
    def overlap(self) -> float:
        return self._of_samples("overlap")

    @property
    def centred_effective_rank(self) -> float:
        return self._of_samples("centred_effective_rank")

    @property
    def mean_energy(self) -> float:
        return self._of_samples("mean_energy")

    def _of_samples(self, name: str) -> float:
        return float("nan") if self.sample_view is None else float(getattr(self.sample_view, name))
