"""The four scores of residual alignment (li2023), from Jacobians and the representations between blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from orthoscope.metrics.jacobians.decay import DepthLaw, dead_blocks, depth_law
from orthoscope.metrics.jacobians.path import line_shape, spacing_variation, step_cosine
from orthoscope.metrics.jacobians.singular_vectors import (
    Grid,
    GridOfMatrices,
    Jacobian,
    alignment_matrices,
    misalignment,
)
from orthoscope.metrics.jacobians.spectra import rank_ratio, top_energy

PerSample = Float[Tensor, "samples"]
PerBlock = Float[Tensor, "blocks samples"]


@dataclass(frozen=True)
class ResidualAlignment:
    """RA1 to RA4, sample by sample; nan where a score is not defined. The limits of each are in its metric."""

    names: tuple[str, ...]
    line_shape: PerSample  # RA1: 1 is straight
    step_cosine: PerSample  # RA1: 1 is one direction
    spacing_variation: PerSample  # RA1: 0 is equally far apart
    left_right: GridOfMatrices  # RA2: |U_jᵀ J_i V_j|
    right_left: GridOfMatrices  # RA2: |V_jᵀ J_i U_j|
    pairs: Grid  # RA2: misalignment of block i with the vectors of block j
    reversed_pairs: Grid  # the same of |V_jᵀ J_i U_j|
    misalignment: PerSample  # RA2: mean over pairs of different blocks; 0 is aligned, 1 unrelated
    reversed_misalignment: PerSample  # 0 if the Jacobians are symmetric as well
    rank_ratio: PerBlock  # RA3: 0 is rank at most C
    top_energy: PerBlock  # RA3: 1 is rank at most C
    law: DepthLaw  # RA4: the line of 1/σ₁
    leading: PerBlock  # σ₁
    dead: Bool[Tensor, "blocks samples"]


def residual_alignment(
    jacobians: Sequence[Jacobian], path: Sequence[Float[Tensor, "samples _"]], *, classes: int = 10
) -> ResidualAlignment:
    """All four scores of blocks in the order they ran, and of the path: what each was given, and what came out last.

    Steps and singular vectors are compared within spaces of one size only: in a network whose stages differ, RA1 is
    the mean over stages, weighted by their steps, and RA2 that over pairs within stages. `classes` is $C$ and $K$.
    """
    if classes < 1:
        raise ValueError(f"classes is a number of directions: give at least 1, got {classes}")
    if len(jacobians) < 1:
        raise ValueError("no Jacobian was given: alignment is about blocks")
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
        rank_ratio=torch.stack([_ratio(one, jacobian, classes) for one, jacobian in measured]),
        top_energy=torch.stack([top_energy(one, jacobian.energy.cpu(), classes) for one, jacobian in measured]),
        law=depth_law(line.mT),
        leading=leading,
        dead=dead_blocks(leading.mT).mT,
    )


def _ratio(values: Tensor, jacobian: Jacobian, classes: int) -> PerSample:
    """Nothing is known beyond the last singular value that was computed, or that there is."""
    if values.shape[-1] <= classes:
        return torch.full_like(values[..., 0], torch.nan)
    return rank_ratio(values, classes)


def _between_blocks(pairs: Grid) -> PerSample:
    """Mean over $i \\ne j$ of what is defined."""
    different = ~torch.eye(len(pairs), dtype=torch.bool)
    return pairs[different].nanmean(0) if len(pairs) > 1 else torch.full(pairs.shape[2:], torch.nan, dtype=pairs.dtype)


def _along(path: Sequence[Float[Tensor, "samples _"]]) -> tuple[PerSample, PerSample, PerSample]:
    """Line shape, cosine and spacing of the stages of a path, each weighted by its steps."""
    stages = [torch.stack(stage, dim=-2).double().cpu() for stage in _stages(path)]
    stages = [stage for stage in stages if stage.shape[-2] > 2]
    if not stages:
        undefined = torch.full((path[0].shape[0],), torch.nan, dtype=torch.float64)
        return undefined, undefined, undefined
    steps = torch.tensor([stage.shape[-2] - 1.0 for stage in stages], dtype=torch.float64)
    weights = (steps / steps.sum()).unsqueeze(-1)

    def mean(scores: list[Tensor]) -> Tensor:
        return (weights * torch.stack(scores)).sum(0)

    return (
        mean([line_shape(stage) for stage in stages]),
        mean([step_cosine(stage) for stage in stages]),
        mean([spacing_variation(stage) for stage in stages]),
    )


def _stages(path: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    for _, points in groupby(path, key=lambda point: point.shape[-1]):
        yield list(points)
