"""Every quantity that is shown to people: its name, what it means, and how it is written and drawn.

Tables in the terminal, DataFrames, and the page's cards and profiles iterate over this table, and the page's legend is
made of it. A new metric of a layer is a field of `View` (or of `Layer`) and a row here; no view changes.
"""

from dataclasses import dataclass
from typing import Literal

from orthoscope.report.document.conversion import Part
from orthoscope.report.document.diagnosis import Expected, Layer, Picture, View

Group = Literal["layer", "network", "depth", "block", "update", "snapshot", "step", "attention", "time", "experts"]
Written = Literal["fixed", "signed", "scientific", "factor", "rank"]
Axis = Literal["unit", "share", "log", "linear"]
Place = Literal["layer", "sample_view", "picture", ""]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One row of the table.

    Attributes:
        key: Name of the field that holds it in the document.
        group: What it is a number of.
        label: Its name, in the words of the field.
        short: Heading of a narrow column; empty if it is shown only where there is room for the label.
        symbol: Its symbol in a formula; empty if it has none.
        unit: Its unit; empty for a pure number.
        explanation: What it is and what a high or a low value means, in one sentence.
        definition: Its formula in words; empty where the explanation is the definition.
        written: "fixed" point, "signed" where the sign is half of what it says, "scientific" where it may span decades,
            "factor" as in ×20,000 for a number of e-folds, or "rank" beside the largest rank that is possible.
        decimals: How many are written in fixed point.
        axis: "unit" from 0 to 1, "share" of the largest possible value, "log", or "linear".
        is_main: Whether it has a row in the overview of layers and a depth profile of its own.
    """

    key: str
    group: Group
    label: str
    short: str = ""
    symbol: str = ""
    unit: str = ""
    explanation: str
    definition: str = ""
    written: Written = "fixed"
    decimals: int = 2
    axis: Axis = "unit"
    is_main: bool = False

    @property
    def anchor(self) -> str:
        """Where the glossary explains it."""
        return self.label.lower().replace(" ", "-")

    @property
    def place(self) -> Place:
        """The part of a layer that holds it; empty for what is not of a layer."""
        if self.group != "layer":
            return ""
        parts: tuple[tuple[Place, type[Part]], ...] = (("layer", Layer), ("sample_view", View), ("picture", Picture))
        return next(place for place, kind in parts if self.key in kind.__dataclass_fields__)

    @property
    def is_predicted(self) -> bool:
        """Whether theory has a number for it."""
        return self.group == "layer" and self.key in Expected.__dataclass_fields__


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        key="gap", group="layer", label="orthogonality gap", short="gap", symbol="V", is_main=True,
        explanation="How far the samples of the batch are from orthogonal and of equal length: 0 if they are, near 1 "
        "if all point in one direction and the network cannot tell them apart.",
        definition="‖HHᵀ/‖H‖² − I/n‖ in Frobenius norms; the n samples of a layer are the rows of H",
    ),
    Quantity(
        key="effective_rank", group="layer", label="effective rank", short="rank", symbol="erank", written="rank",
        axis="share", is_main=True,
        explanation="How many directions the samples of the batch use: at most the number of samples or units, 1 "
        "after rank collapse.",
        definition="exponential of the entropy of the singular values of H, as shares of their sum",
    ),
    Quantity(
        key="overlap", group="layer", label="mean overlap", short="cos", symbol="c", is_main=True,
        explanation="Mean cosine similarity of two samples: 0 if they are orthogonal, 1 if they are parallel.",
        definition="mean of cos(hᵢ, hⱼ) over pairs of samples i ≠ j",
    ),
    Quantity(
        key="rms", group="layer", label="RMS of the output", short="rms", written="scientific", axis="log",
        is_main=True,
        explanation="Root mean square of the output: it should stay near the same size in all layers.",
    ),
    Quantity(
        key="gradient_norm", group="layer", label="gradient norm", short="|grad|", symbol="‖∂L/∂h‖",
        written="scientific", axis="log", is_main=True,
        explanation="Norm of the gradient of the loss with respect to the output of the layer: growth toward the "
        "input is an exploding gradient, decay a vanishing one.",
    ),
    Quantity(
        key="isometry_gap", group="layer", label="isometry gap", short="isometry", symbol="ψ", written="scientific",
        axis="linear",
        explanation="Log-ratio of the arithmetic to the geometric mean of the squared singular values of the samples: "
        "0 if the samples are orthogonal and of equal length, infinite if they are linearly dependent.",
    ),
    Quantity(
        key="centered_rank", group="layer", label="effective rank around the mean", written="rank", axis="share",
        explanation="How many directions the differences of the samples use: low if only the mean of the batch is "
        "left.",
        definition="effective rank of H after the mean of its rows is subtracted",
    ),
    Quantity(
        key="stable_rank", group="layer", label="stable rank", symbol="‖H‖²/σ₁²", written="rank", axis="share",
        explanation="Squared Frobenius norm over squared spectral norm: a rank that small singular values hardly "
        "change.",
    ),
    Quantity(
        key="numerical_rank", group="layer", label="numerical rank", written="rank", axis="share",
        explanation="Number of singular values of the samples above rounding: less than possible if samples are "
        "linearly dependent.",
    ),
    Quantity(
        key="mean_energy", group="layer", label="energy of the mean",
        explanation="Share of the energy that is in the mean of the batch: 1 if all samples are equal.",
        definition="squared norm of the batch mean over the mean squared norm of the samples",
    ),
    Quantity(
        key="length_spread", group="layer", label="spread of lengths", symbol="s/‖h‖", axis="linear",
        explanation="How much the lengths of the samples differ: 0 if all are equally long; if it is large, a few long "
        "samples alone can make the orthogonality gap large.",
        definition="standard deviation of ‖hᵢ‖ over the samples, divided by their mean",
    ),
    Quantity(
        key="weight_gradient_norm", group="layer", label="weight gradient norm", symbol="‖∂L/∂W‖",
        written="scientific", axis="log",
        explanation="Norm of the gradient of the loss with respect to the weight of the layer: what the optimizer "
        "sees.",
    ),
    Quantity(
        key="risk", group="network", label="risk of not training", symbol="p",
        explanation="Calibrated probability that a network with these numbers does not train: 0 is safe, 1 hopeless.",
        definition="the worst of three logistic laws: in effective rank, gradient growth and gradient decay",
    ),
    Quantity(
        key="slope", group="network", label="gradient growth per weight layer", unit="e-folds", written="factor",
        axis="linear",
        explanation="Factor by which the gradient norm changes per weight layer toward the input: 1 is ideal, above 1 "
        "explodes, below 1 vanishes.",
        definition="exponential of the slope of the log gradient norm over weight layers, fitted by least squares; "
        "documents hold the logarithm",
    ),
    Quantity(
        key="gradient_growth", group="depth", label="gradient growth", unit="e-folds", written="factor",
        axis="linear", is_main=True,
        explanation="Factor by which the gradient norm changes from the output to the input: 1 is ideal, far above 1 "
        "explodes, far below vanishes.",
        definition="growth per weight layer to the power of the number of weight layers minus one, from the fitted "
        "line; documents hold the logarithm",
    ),
    Quantity(
        key="overlap_deviation", group="depth", label="deviation of the overlap", symbol="sd(c)", decimals=3,
        explanation="Standard deviation of the cosine similarity of one pair of samples over random weights.",
    ),
    Quantity(
        key="sigma1", group="block", label="largest singular value", symbol="σ₁", written="scientific", decimals=3,
        axis="log", is_main=True,
        explanation="Largest singular value of the Jacobian of the residual branch: how much the block can stretch.",
    ),
    Quantity(
        key="misalignment", group="block", label="misalignment", is_main=True,
        explanation="How little the singular vectors of a block agree with those of the other blocks: 0 if they are "
        "shared, 1 if they are unrelated.",
    ),
    Quantity(
        key="rank_ratio", group="block", label="rank ratio", symbol="σₖ₊₁/σ₁", decimals=3,
        explanation="First singular value past the number of classes over the largest: 0 if the Jacobian has no more "
        "directions than there are classes.",
    ),
    Quantity(
        key="top_energy", group="block", label="energy of the top directions", is_main=True,
        explanation="Share of the energy of the Jacobian in as many directions as there are classes: 1 if it has no "
        "others.",
    ),
    Quantity(
        key="step", group="block", label="length of the step", symbol="‖Δh‖", written="scientific", axis="log",
        is_main=True,
        explanation="Length of what the block adds to the residual stream: equal lengths make a straight, even path.",
    ),
    Quantity(
        key="relative_size", group="update", label="relative size of the update", short="|ΔW|/|W|",
        symbol="‖ΔW‖/‖W‖", written="scientific", decimals=3, axis="log", is_main=True,
        explanation="Frobenius norm of the update over that of the weight: near 1e-3 in usual training, above 0.1 "
        "the step replaces most of the weight.",
    ),
    Quantity(
        key="effective_rank", group="update", label="effective rank of the update", short="rank",
        written="rank", axis="share",
        explanation="How many directions the update uses: low if the optimizer follows a few of them.",
    ),
    Quantity(
        key="semi_orthogonality_defect", group="update", label="unevenness of the update", short="uneven",
        explanation="How unequal the singular values of the update are: 0 if all are equal, as after a step of Muon.",
    ),
    Quantity(
        key="angle_change", group="update", label="mean change of the angle of two rows", short="Δangle",
        unit="radians", written="scientific", decimals=4, axis="linear",
        explanation="Mean change of the angle between two rows of the weight: 0 if the step only rotates them "
        "together.",
    ),
    Quantity(
        key="independence", group="update", label="mean absolute cosine of two rows", short="PII", decimals=3,
        explanation="Mean absolute cosine of two rows of the weight, before the step: 0 if they are orthogonal.",
    ),
    Quantity(
        key="independence_change", group="update", label="change of that cosine", short="ΔPII", written="signed",
        decimals=4, axis="linear",
        explanation="What the step adds to the mean absolute cosine of two rows: positive if they become more alike.",
    ),
    Quantity(
        key="rms_operator_norm", group="update", label="RMS operator norm of the update", short="rms→rms",
        symbol="√(in/out) ‖ΔW‖₂", written="scientific", decimals=3, axis="log",
        explanation="By how much the update can change the RMS of the output for inputs of RMS 1.",
    ),
    Quantity(
        key="update_alignment", group="update", label="cosine of update and weight", short="cos", axis="linear",
        explanation="Cosine of the update and the weight: negative if the step shrinks the weight.",
    ),
    Quantity(
        key="gradient_norm", group="update", label="gradient norm", short="|grad|", written="scientific", axis="log",
        explanation="Frobenius norm of the gradient that the optimizer saw.",
    ),
    Quantity(
        key="worst_gap", group="snapshot", label="worst orthogonality gap", short="worst gap", is_main=True,
        explanation="Largest orthogonality gap of the layers that allow at least 21 directions, or else the most: near "
        "1 if samples collapse there.",
    ),
    Quantity(
        key="min_effective_rank", group="snapshot", label="least effective rank", short="least rank",
        written="rank", axis="linear", is_main=True,
        explanation="Least effective rank of the layers that allow at least 21 directions, or else the most: 1 after "
        "rank collapse.",
    ),
    Quantity(
        key="mean_overlap", group="snapshot", label="mean overlap at the end", short="cos", is_main=True,
        explanation="Mean cosine similarity of two samples at the last layer that allows at least 21 directions, or "
        "else the most.",
    ),
    Quantity(
        key="gradient_slope", group="snapshot", label="gradient growth per weight layer", short="growth/layer",
        unit="e-folds", written="factor", axis="linear", is_main=True,
        explanation="Factor by which the gradient norm changes per weight layer toward the input: 1 is ideal.",
    ),
    Quantity(
        key="risk", group="snapshot", label="risk of not training", short="risk", symbol="p",
        explanation="Calibrated probability that a network with these numbers does not train.",
    ),
    Quantity(
        key="record_seconds", group="snapshot", label="time of the snapshot", short="seconds", unit="s",
        written="scientific", axis="linear",
        explanation="Time that the snapshot took.",
    ),
    Quantity(
        key="loss", group="step", label="loss of the step", short="loss", symbol="L", written="scientific",
        axis="linear",
        explanation="The scalar at which the backward passes of a step start, summed over them: it should fall below "
        "that of guessing, and stay there.",
    ),
    Quantity(
        key="largest_logit", group="attention", label="largest attention logit", short="logit", written="scientific",
        axis="log",
        explanation="Largest product of a query and a key, scaled, that the mask allows: a few for a network at "
        "initialization; beyond a hundred, one key gets all the weight.",
    ),
    Quantity(
        key="entropy", group="attention", label="entropy of attention", short="entropy",
        explanation="Mean entropy of the weights of a query, as a share of that of uniform weights: 1 if all keys get "
        "as much, 0 if one key gets all.",
        definition="−Σ p ln p / ln n over the n ≥ 2 keys that a query may see, averaged over a few queries",
    ),
    Quantity(
        key="one_hot_heads", group="attention", label="one-hot heads", short="one-hot",
        explanation="Share of heads whose entropy is below 10 % of uniform: one key gets nearly all the weight, and "
        "queries and keys get hardly any gradient.",
    ),
    Quantity(
        key="uniform_heads", group="attention", label="uniform heads", short="uniform",
        explanation="Share of heads whose entropy is above 99 % of uniform: usual at initialization.",
    ),
    Quantity(
        key="lonely_queries", group="attention", label="queries without a choice", short="lonely",
        explanation="Share of queries for which the mask leaves one key or none, besides the first of a causal mask.",
    ),
    Quantity(
        key="growth", group="time", label="gradient growth over time", short="growth", unit="e-folds",
        written="factor", axis="linear",
        explanation="Factor by which the gradient norm changes from the last time step to the first: above 1 it "
        "explodes, far below 1 early steps are not learned from.",
        definition="gradient with respect to the input of the layer (of a cell: its states), step by step; documents "
        "hold the logarithm",
    ),
    Quantity(
        key="reach", group="time", label="steps that the gradient reaches", short="reach", written="rank",
        axis="linear",
        explanation="How many steps back the gradient is at least a thousandth of its largest.",
    ),
    Quantity(
        key="saturation", group="time", label="saturated gates and states", short="saturated",
        explanation="Share of gates and states within 3 % of their bounds, where they pass no gradient.",
    ),
    Quantity(
        key="effective", group="experts", label="effective number of experts", short="experts", written="rank",
        axis="linear",
        explanation="How many experts share the tokens: all if the load is even, as many as a token goes to if the "
        "router has collapsed.",
        definition="exponential of the entropy of the load",
    ),
    Quantity(
        key="balance", group="experts", label="balance of the router",
        short="balance",
        explanation="0 if all tokens go to the same experts, 1 if all experts get as many.",
        definition="(effective number − experts a token goes to)/(experts − experts a token goes to)",
    ),
)  # fmt: skip


def quantities(group: Group) -> tuple[Quantity, ...]:
    """Return the quantities of one group, in the order in which they are shown."""
    return tuple(quantity for quantity in QUANTITIES if quantity.group == group)


def quantity(group: Group, key: str) -> Quantity:
    """Return one of them by its key."""
    return next(one for one in quantities(group) if one.key == key)
