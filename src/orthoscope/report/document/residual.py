"""The document of residual alignment: how the Jacobians of residual blocks align."""

from dataclasses import dataclass
from typing import Annotated, Literal

from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.parts import NOT_NEGATIVE, POSITIVE, Environment, Omission


@dataclass(frozen=True, kw_only=True)
class AlignmentStatement(Part):
    """One of the statements RA1 to RA4: what it says, the number that decides it, and its limit."""

    key: Annotated[str, "Which of the four.", {"enum": ["RA1", "RA2", "RA3", "RA4"]}]
    statement: Annotated[str, "What it says."]
    quantity: Annotated[str, "The number that decides it, in words."]
    value: Annotated[Number | None, "Median of this number over samples; null if it could not be measured."]
    limit: Annotated[Number, "Limit of the number."]
    above: Annotated[bool, "Whether the number must be above the limit, or below."]
    holds: Annotated[bool | None, "Whether the statement holds; null if it could not be measured."]


@dataclass(frozen=True, kw_only=True)
class DepthLaw(Part):
    """RA4: the line of 1/σ₁ over depth, and the exponent of depth in σ₁."""

    slope: Annotated[Number | None, "Slope of the line."]
    intercept: Annotated[Number | None, "Intercept of the line."]
    r_squared: Annotated[Number | None, "Share of the variance that the line explains."]
    exponent: Annotated[Number | None, "Exponent of depth in σ₁; -1 is the law."]


@dataclass(frozen=True, kw_only=True)
class LogSingularValues(Part):
    """Logarithms of the singular values of the Jacobian of the whole network."""

    mean_log: Annotated[Number | None, "Their mean; 0 for dynamical isometry."]
    spread_log: Annotated[Number | None, "Their standard deviation; 0 for dynamical isometry."]


@dataclass(frozen=True, kw_only=True)
class Block(Part):
    """The Jacobian of one residual branch, without the skip connection."""

    name: Annotated[str, "Name of the block."]
    skip: Annotated[str, "What runs beside the branch.", {"enum": ["identity", "projection", "none"]}]
    activation: Annotated[str | None, "Activation after the sum; its slope multiplies the Jacobian."]
    inputs: Annotated[int, "Columns of the Jacobian.", POSITIVE]
    outputs: Annotated[int, "Rows of the Jacobian.", POSITIVE]
    singular_values: Annotated[tuple[Number | None, ...], "Largest singular values.", {"minItems": 1}]
    relative_error: Annotated[Number | None, "Largest error of the first, relative; 0 where it is exact."]
    rank_ratio: Annotated[Number | None, "RA3: first singular value past the number of classes, over the largest."]
    top_energy: Annotated[Number | None, "RA3: share of the energy in as many directions as there are classes."]
    misalignment: Annotated[Number | None, "RA2: mean over the other blocks; 0 for shared singular vectors."]
    step: Annotated[Number | None, "Length of what the block adds; null between stages."]
    dead: Annotated[bool, "Whether the Jacobian is zero at every sample."]

    @property
    def sigma1(self) -> Number | None:
        """Largest singular value."""
        return self.singular_values[0]


@dataclass(frozen=True, kw_only=True)
class ResidualDocument(Part, drawn=True):
    """How the Jacobians of residual blocks align; numbers are medians over samples, null is undefined."""

    schema: Literal["orthoscope.residual/1"] = "orthoscope.residual/1"
    name: Annotated[str, "Name of the network."]
    verdict: Annotated[
        str, "How many statements hold.", {"enum": ["ALIGNED", "PARTLY ALIGNED", "NOT ALIGNED", "UNKNOWN"]}
    ]
    summary: Annotated[str, "One sentence: what holds, what does not, what is not known."]
    statements: Annotated[tuple[AlignmentStatement, ...], "RA1 to RA4."]
    samples: Annotated[int, "Samples at which the Jacobians are taken.", POSITIVE]
    classes: Annotated[int, "Directions that the Jacobians may have.", POSITIVE]
    line_shape: Annotated[Number | None, "RA1: 1 for a straight path of the representations."]
    step_cosine: Annotated[Number | None, "RA1: mean cosine of adjacent steps."]
    spacing_variation: Annotated[Number | None, "RA1: standard deviation of step lengths over their mean."]
    misalignment: Annotated[Number | None, "RA2: 0 for shared singular vectors, 1 for unrelated ones."]
    reversed_misalignment: Annotated[Number | None, "RA2 with left and right singular vectors exchanged."]
    law: Annotated[DepthLaw, "RA4: how the largest singular value depends on depth."]
    whole: Annotated[LogSingularValues | None, "The network from input to output; null if not all are known."]
    blocks: Annotated[tuple[Block, ...], "Every residual block, in order.", {"minItems": 1}]
    pairs: Annotated[
        tuple[tuple[Number | None, ...], ...], "Misalignment of block i with the singular vectors of block j."
    ]
    left_out: Annotated[tuple[Omission, ...], "Modules whose additions are no residual branch."]
    notes: Annotated[tuple[str, ...], "Remarks on the measurement."]
    seconds: Annotated[Number, "Time that it took.", NOT_NEGATIVE]
    environment: Annotated[Environment, "What the numbers were made with."]
