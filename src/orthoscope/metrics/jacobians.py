"""Scores of residual alignment (li2023) from Jacobians and representations, and how far a Jacobian is from isometry.

* RA1: the representations of one input lie on a line, equally far apart.
* RA2: the singular vectors of one block's Jacobian diagonalize another's.
* RA3: Jacobians have at most as many singular values as there are classes.
* RA4: the largest singular value of block i falls as 1/i.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from orthoscope.metrics.representations import Scalar


def defined_median(values: Tensor) -> float:
    """The median of the entries that are finite, of an even number the mean of the two in the middle; nan of none."""
    defined = values[values.isfinite()].double()
    # Not `median`, which returns the lower of the two.
    return float(defined.quantile(0.5)) if defined.numel() else torch.nan


Path = Float[Tensor, "*batch points units"]


def line_shape(path: Path) -> Scalar:
    r"""How far a path is from straight: 1 on a line, infinite when it goes nowhere.

    $$ \frac{L}{\bigl\|\sum_{i=1}^{L} \Delta_i/\|\Delta_i\|\bigr\|}, \qquad \Delta_i = h_{i+1} - h_i $$

    Steps in random directions of a high dimension have about $\sqrt L$. Steps of length zero, those of dead blocks,
    have no direction and are left out, of $L$ too.
    """
    steps, moved = _unit_steps(path)
    return moved.sum(-1) / torch.linalg.vector_norm(steps.sum(-2), dim=-1)


def step_cosine(path: Path) -> Scalar:
    r"""Mean cosine of adjacent steps, $\frac1{L-1}\sum_i\cos(\Delta_i, \Delta_{i+1})$: 1 on a line, 0 if random.

    Pairs with a step of length zero are left out; nan if none is left.
    """
    steps, moved = _unit_steps(path)
    both = moved[..., 1:] * moved[..., :-1]
    return (steps[..., 1:, :] * steps[..., :-1, :]).sum((-2, -1)) / both.sum(-1)


def spacing_variation(path: Path) -> Scalar:
    """Standard deviation of the lengths of steps over their mean: 0 if points are equally far apart."""
    lengths = torch.linalg.vector_norm(path.double().diff(dim=-2), dim=-1)
    return lengths.std(-1, correction=0) / lengths.mean(-1)


def _unit_steps(path: Path) -> tuple[Float[Tensor, "*batch steps units"], Float[Tensor, "*batch steps"]]:
    """Directions of the steps, zero where there is none, and 1 or 0 for whether there is one."""
    if path.shape[-2] < 2:
        raise ValueError(f"a path needs at least two points, got {path.shape[-2]}")
    steps = path.double().diff(dim=-2)
    lengths = torch.linalg.vector_norm(steps, dim=-1, keepdim=True)
    return torch.where(lengths > 0, steps / lengths, 0.0), (lengths > 0).double().squeeze(-1)


# Over blocks i and j, and then over samples; nan where i and j do not act on the same space.
Grid = Float[Tensor, "blocks blocks samples"]
GridOfMatrices = Float[Tensor, "blocks blocks samples count count"]


@runtime_checkable
class Operator(Protocol):
    """A linear map known by its products."""

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs)."""

    def multiply(self, vectors: Tensor) -> Tensor:
        """Products with the columns of `vectors`."""


@runtime_checkable
class Jacobian(Protocol):
    """The parts of an `orthoscope.probe.BlockJacobian` that the scores use."""

    @property
    def name(self) -> str:
        """The module."""

    @property
    def singular_values(self) -> Float[Tensor, "samples count"]:
        """Largest first."""

    @property
    def left(self) -> Float[Tensor, "samples outputs count"]:
        """Left singular vectors, as columns."""

    @property
    def right(self) -> Float[Tensor, "samples inputs count"]:
        """Right singular vectors, as columns."""

    @property
    def operator(self) -> Operator:
        """Products with the Jacobian."""

    @property
    def energy(self) -> Float[Tensor, "samples"]:
        """Sum of all squared singular values."""


def alignment_matrices(jacobians: Sequence[Jacobian], count: int = 10) -> tuple[GridOfMatrices, GridOfMatrices]:
    r"""$|U_j^\top J_i V_j|$ and $|V_j^\top J_i U_j|$ at $(i, j)$, with the $K$ first singular vectors of block $j$.

    Both are diagonal, with the singular values of $J_i$, if all blocks share their singular vectors and $J_i$ is
    symmetric; only then the second is, which identifies $U_j = V_j$. Blocks on spaces of different sizes give nan.
    """
    count = min([count, *(jacobian.singular_values.shape[-1] for jacobian in jacobians)])
    blocks, samples = len(jacobians), len(jacobians[0].singular_values)
    forward = torch.full((blocks, blocks, samples, count, count), torch.nan, dtype=torch.float64)
    reverse = forward.clone()
    for i, one in enumerate(jacobians):
        for j, other in enumerate(jacobians):
            if one.operator.shape != other.operator.shape:
                continue
            left, right = other.left[..., :count], other.right[..., :count]
            if one.operator.shape[0] != one.operator.shape[1]:
                forward[i, j] = _sandwiched(left, one.operator.multiply(right))
                continue
            images = one.operator.multiply(torch.cat([right, left], dim=-1))
            forward[i, j] = _sandwiched(left, images[..., :count])
            reverse[i, j] = _sandwiched(right, images[..., count:])
    return forward, reverse


def misalignment(matrices: GridOfMatrices, singular_values: Float[Tensor, "blocks samples count"]) -> Grid:
    r"""$\bigl\||U_j^\top J_i V_j| - S_i\bigr\|_F/\|S_i\|_F$: 0 for shared singular vectors, 1 for unrelated ones.

    $S_i$ has the $K$ largest singular values of $J_i$. nan where $J_i$ or $J_j$ is zero: a dead block has no vectors.
    """
    count = matrices.shape[-1]
    values = singular_values[..., :count].double().cpu()
    target = torch.diag_embed(values).unsqueeze(1)
    size = torch.linalg.vector_norm(values, dim=-1)
    distance = torch.linalg.matrix_norm(matrices - target) / size.unsqueeze(1)
    alive = size > 0
    return torch.where(alive.unsqueeze(1) & alive.unsqueeze(0), distance, torch.nan)


def _sandwiched(left: Tensor, image: Tensor) -> Float[Tensor, "samples count count"]:
    return (left.double().mT @ image.double()).abs().cpu()


Values = Float[Tensor, "*batch count"]


class Isometry(NamedTuple):
    r"""Mean and standard deviation of the logarithms of singular values: both 0 for an isometry.

    Attributes:
        mean: Mean of $\log\sigma$.
        spread: Standard deviation of $\log\sigma$.
    """

    mean: Tensor
    spread: Tensor


def rank_ratio(singular_values: Values, classes: int = 10) -> Scalar:
    r"""$\sigma_{C+1}/\sigma_1$, 0 if the rank is at most $C$; nan for a zero Jacobian.

    Zero too where there are no more than $C$ dimensions, and refused where fewer singular values were computed.
    """
    if singular_values.shape[-1] <= classes:
        raise ValueError(
            f"the rank beyond {classes} classes needs {classes + 1} singular values, got {singular_values.shape[-1]}: "
            f"ask for top={classes + 1}"
        )
    return singular_values[..., classes].double() / singular_values[..., 0].double()


def top_energy(singular_values: Values, energy: Scalar, classes: int = 10) -> Scalar:
    r"""$\sum_{k \le C}\sigma_k^2 / \|J\|_F^2$, the share of a Jacobian that rank $C$ can hold; nan if it is zero."""
    return (singular_values[..., :classes].double().square().sum(-1) / energy.double()).clamp_max(1)


def condition_number(singular_values: Values) -> Scalar:
    r"""$\sigma_{\max}/\sigma_{\min}$ of all singular values; infinite if some direction is lost, nan if all are."""
    return singular_values.amax(-1).double() / singular_values.amin(-1).double()


def dynamical_isometry(singular_values: Values) -> Isometry:
    r"""Mean and standard deviation of $\log\sigma$ over all singular values; minus infinity and nan if one is zero.

    A network trains evenly in all directions if its input-output Jacobian has both near 0 (Saxe, McClelland &
    Ganguli, 2014). The mean is that of a layer's gain, and adds up over layers when they are aligned.
    """
    logarithms = singular_values.double().log()
    return Isometry(logarithms.mean(-1), logarithms.std(-1, correction=0))


Leading = Float[Tensor, "*batch blocks"]
# Blocks this far below the strongest are dead: weight decay or a zero-initialized branch made them so, and their 1/σ
# is no point of any line.
DEAD = 1e-6


class DepthLaw(NamedTuple):
    r"""A line through $1/\sigma_1(J_i)$ over $i = 1, 2, \dots$, and the exponent of $\sigma_1 \propto i^{\,p}$.

    Attributes:
        slope: Of $1/\sigma_1$ over depth.
        intercept: Of the same line.
        r_squared: Of the same line.
        exponent: $p$.
    """

    slope: Tensor
    intercept: Tensor
    r_squared: Tensor
    exponent: Tensor


def dead_blocks(leading: Leading) -> Bool[Tensor, "*batch blocks"]:
    """Blocks that do nothing: a largest singular value of zero, or a millionth of the largest there is."""
    return ~(leading > DEAD * leading.amax(-1, keepdim=True))


def depth_law(leading: Leading) -> DepthLaw:
    r"""Least squares of $1/\sigma_1(J_i)$ on depth $i$ from 1, dead blocks left out; nan with fewer than three others.

    Slope 1 is what an aligned network with equally spaced representations has (`theory.equispacing_singular_values`),
    exponent $-1$ is the law $1/i$, 0 is the unconstrained Jacobians model.
    """
    values = leading.double()
    alive = ~dead_blocks(leading)
    depth = torch.arange(1, values.shape[-1] + 1, dtype=torch.float64, device=values.device).expand_as(values)
    safe = torch.where(alive, values, 1.0)
    slope, intercept, r_squared = _line(depth, 1 / safe, alive)
    exponent, _, _ = _line(depth.log(), safe.log(), alive)
    return DepthLaw(slope, intercept, r_squared, exponent)


def _line(x: Tensor, y: Tensor, counted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Slope, intercept and $R^2 = 1 - \sum(y - \hat y)^2/\sum(y - \bar y)^2$ over the points that count."""
    weight = counted.double()
    number = weight.sum(-1, keepdim=True)
    mean_x, mean_y = ((weight * value).sum(-1, keepdim=True) / number for value in (x, y))
    across, up = weight * (x - mean_x), weight * (y - mean_y)
    slope = (across * up).sum(-1) / across.square().sum(-1)
    residual = up - slope.unsqueeze(-1) * across
    r_squared = 1 - residual.square().sum(-1) / up.square().sum(-1)
    intercept = mean_y.squeeze(-1) - slope * mean_x.squeeze(-1)
    unknown = torch.where(number.squeeze(-1) < 3, torch.nan, 0.0)
    return slope + unknown, intercept + unknown, r_squared + unknown


PerSample = Float[Tensor, "samples"]
PerBlock = Float[Tensor, "blocks samples"]


@dataclass(frozen=True)
class ResidualAlignment:
    r"""RA1 to RA4, sample by sample; nan where a score is not defined. The limits of each are in its metric.

    Attributes:
        names: Of the blocks.
        line_shape: RA1: 1 is straight.
        step_cosine: RA1: 1 is one direction.
        spacing_variation: RA1: 0 is equally far apart.
        left_right: RA2: $|U_j^\top J_i V_j|$.
        right_left: RA2: $|V_j^\top J_i U_j|$.
        pairs: RA2: misalignment of block $i$ with the singular vectors of block $j$.
        reversed_pairs: The same of $|V_j^\top J_i U_j|$.
        misalignment: RA2: mean over pairs of different blocks; 0 is aligned, 1 is unrelated.
        reversed_misalignment: The same of the reversed pairs: 0 if the Jacobians are symmetric as well.
        rank_ratio: RA3: 0 is rank at most C.
        top_energy: RA3: 1 is rank at most C.
        law: RA4: the line of $1/\sigma_1$.
        leading: $\sigma_1$ of every block.
        dead: Which blocks are dead (`dead_blocks`).
    """

    names: tuple[str, ...]
    line_shape: PerSample
    step_cosine: PerSample
    spacing_variation: PerSample
    left_right: GridOfMatrices
    right_left: GridOfMatrices
    pairs: Grid
    reversed_pairs: Grid
    misalignment: PerSample
    reversed_misalignment: PerSample
    rank_ratio: PerBlock
    top_energy: PerBlock
    law: DepthLaw
    leading: PerBlock
    dead: Bool[Tensor, "blocks samples"]


def residual_alignment(
    jacobians: Sequence[Jacobian], path: Sequence[Float[Tensor, "samples _"]], *, classes: int = 10
) -> ResidualAlignment:
    """All four scores of residual alignment.

    Steps and singular vectors are compared within spaces of one size only: in a network whose stages differ, RA1 is
    the mean over stages, weighted by their steps, and RA2 that over pairs within stages.

    Args:
        jacobians: Of the blocks, in forward order.
        path: The input of every block, and the output of the last.
        classes: Number of classes: $C$ of RA3 and $K$ of RA2.

    Raises:
        ValueError: If there is no Jacobian, or `classes` is below 1.
    """
    if classes < 1:
        raise ValueError(f"classes={classes}, but must be at least 1")
    if len(jacobians) < 1:
        raise ValueError("no Jacobian was given: alignment needs at least one residual block")
    values = [jacobian.singular_values.double().cpu() for jacobian in jacobians]
    leading = torch.stack([one[..., 0] for one in values])
    forward, reverse = alignment_matrices(jacobians, classes)
    count = forward.shape[-1]
    top = torch.stack([one[..., :count] for one in values])
    pairs, back = misalignment(forward, top), misalignment(reverse, top)
    shape, cosine, spacing = _along(path)
    squares = [jacobian.operator.shape[0] == jacobian.operator.shape[1] for jacobian in jacobians]
    # A block between stages has no identity to be compared with: it is no point of the line.
    line = torch.where(torch.tensor(squares).unsqueeze(-1), leading, 0.0)
    measured = list(zip(values, jacobians, strict=True))
    return ResidualAlignment(
        names=tuple(jacobian.name for jacobian in jacobians),
        line_shape=shape,
        step_cosine=cosine,
        spacing_variation=spacing,
        left_right=forward,
        right_left=reverse,
        pairs=pairs,
        reversed_pairs=back,
        misalignment=_between_blocks(pairs),
        reversed_misalignment=_between_blocks(back),
        rank_ratio=torch.stack([_ratio(one, classes) for one, _ in measured]),
        top_energy=torch.stack([top_energy(one, jacobian.energy.cpu(), classes) for one, jacobian in measured]),
        law=depth_law(line.mT),
        leading=leading,
        dead=dead_blocks(leading.mT).mT,
    )


def _ratio(values: Tensor, classes: int) -> PerSample:
    """`rank_ratio`, nan where too few singular values were computed."""
    if values.shape[-1] <= classes:
        return torch.full_like(values[..., 0], torch.nan)
    return rank_ratio(values, classes)


def _between_blocks(pairs: Grid) -> PerSample:
    r"""Mean over $i \ne j$ of what is defined."""
    different = ~torch.eye(len(pairs), dtype=torch.bool)
    return pairs[different].nanmean(0) if len(pairs) > 1 else torch.full(pairs.shape[2:], torch.nan, dtype=pairs.dtype)


def _along(path: Sequence[Float[Tensor, "samples _"]]) -> tuple[PerSample, PerSample, PerSample]:
    """Line shape, cosine and spacing of the stages of a path, each weighted by its steps."""
    spaces = groupby(path, key=lambda point: point.shape[-1])
    stages = [torch.stack(list(points), dim=-2).double().cpu() for _, points in spaces]
    stages = [stage for stage in stages if stage.shape[-2] > 2]
    if not stages:
        undefined = torch.full((path[0].shape[0],), torch.nan, dtype=torch.float64)
        return undefined, undefined, undefined
    steps = torch.tensor([stage.shape[-2] - 1.0 for stage in stages], dtype=torch.float64)
    weights = (steps / steps.sum()).unsqueeze(-1)
    scores = (line_shape, step_cosine, spacing_variation)
    shape, cosine, spacing = ((weights * torch.stack([score(stage) for stage in stages])).sum(0) for score in scores)
    return shape, cosine, spacing
