"""The loops that `orthoscope.chains` is compared with: network by network, layer by layer, in float64.

Written as for a paper, without needless work: samples in columns, no autograd graph where no gradient is needed,
results kept as tensors until the end. Each network has its own generator.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Matrix = Callable[[int, torch.Generator], Tensor]


def gaussian(width: int, source: torch.Generator) -> Tensor:
    return torch.randn(width, width, generator=source, dtype=torch.float64).div_(math.sqrt(width))


def single_gaussian(width: int, source: torch.Generator) -> Tensor:
    """Drawn in float32, for which torch has a vectorized generator; everything else is float64."""
    return torch.randn(width, width, generator=source).double().div_(math.sqrt(width))


def haar(width: int, source: torch.Generator) -> Tensor:
    """QR of a Gaussian matrix, with the signs that make it uniform (Mezzadri, 2007)."""
    frame, triangle = torch.linalg.qr(torch.randn(width, width, generator=source, dtype=torch.float64))
    return frame * triangle.diagonal().sign()


def batch_normed(hidden: Tensor) -> Tensor:
    """Rows are units."""
    return hidden * hidden.square().mean(1, keepdim=True).rsqrt()


def orthogonality_gap(hidden: Tensor, target: Tensor) -> Tensor:
    gram = hidden.mT @ hidden
    return torch.linalg.matrix_norm(gram / gram.trace() - target)


def isometry_gap(hidden: Tensor) -> Tensor:
    values = torch.linalg.svdvals(hidden)
    return values.square().mean().log() - 2 * values.log().mean()


@torch.no_grad()
def gaps_of_drawn_matrices(start: Tensor, depth: int, seeds: Sequence[int], matrix: Matrix = gaussian) -> Tensor:
    """Orthogonality gap of every seed and layer; `start` is `(samples, units)`."""
    samples, width = start.shape
    target = torch.eye(samples, dtype=torch.float64) / samples
    found = []
    for seed in seeds:
        source, hidden = torch.Generator().manual_seed(seed), start.mT
        for _ in range(depth):
            hidden = batch_normed(matrix(width, source) @ hidden)
            found.append(orthogonality_gap(hidden, target))
    return torch.stack(found).unflatten(0, (len(seeds), depth))


@torch.no_grad()
def gaps_of_drawn_columns(start: Tensor, depth: int, seeds: Sequence[int]) -> Tensor:
    """The same in law: H = QR, and WQ is as Gaussian as W, so as many columns are drawn as there are samples."""
    samples, width = start.shape
    target = torch.eye(samples, dtype=torch.float64) / samples
    found = []
    for seed in seeds:
        source, hidden = torch.Generator().manual_seed(seed), start.mT
        for _ in range(depth):
            triangle = torch.linalg.qr(hidden, mode="r").R
            columns = torch.randn(width, samples, generator=source, dtype=torch.float64)
            # Batch norm does not see the scale of the weights.
            hidden = batch_normed(columns @ triangle)
            found.append(orthogonality_gap(hidden, target))
    return torch.stack(found).unflatten(0, (len(seeds), depth))


@torch.no_grad()
def isometry_gaps(starts: Tensor, depth: int, every: int, seeds: Sequence[int]) -> Tensor:
    """Isometry gap of every seed and recorded layer, Haar weights; `starts` is `(seeds, samples, units)`."""
    found = []
    for start, seed in zip(starts, seeds, strict=True):
        source, hidden = torch.Generator().manual_seed(seed), start.mT
        for layer in range(1, depth + 1):
            hidden = batch_normed(haar(len(hidden), source) @ hidden)
            if layer % every == 0:
                found.append(isometry_gap(hidden))
    return torch.stack(found).unflatten(0, (len(seeds), depth // every))


def first_gradients(starts: Tensor, depths: Sequence[int], seeds: Sequence[int], matrix: Matrix) -> Tensor:
    """Log-norm of the first weight's gradient: a network for every seed and depth, by autograd."""
    found = []
    for start, seed in zip(starts, seeds, strict=True):
        for depth in depths:
            source = torch.Generator().manual_seed(seed)
            loss, first = _loss_and_first_weight(start, [depth], source, matrix)
            found.append(_log_gradient(loss[0], first))
    return torch.stack(found).unflatten(0, (len(seeds), len(depths)))


def shared_first_gradients(starts: Tensor, depths: Sequence[int], seeds: Sequence[int], matrix: Matrix) -> Tensor:
    """The same with one network a seed, of the largest depth, that ends at each of the depths."""
    found = []
    for start, seed in zip(starts, seeds, strict=True):
        source = torch.Generator().manual_seed(seed)
        losses, first = _loss_and_first_weight(start, depths, source, matrix)
        found.append(torch.stack([_log_gradient(loss, first) for loss in losses]))
    return torch.stack(found)


def _loss_and_first_weight(
    start: Tensor, depths: Sequence[int], source: torch.Generator, matrix: Matrix, classes: int = 10
) -> tuple[list[Tensor], Tensor]:
    samples, width = start.shape
    head = torch.randn(classes, width, generator=source, dtype=torch.float64) / math.sqrt(width)
    labels = torch.randint(classes, (samples,), generator=source)
    first = matrix(width, source).requires_grad_()
    hidden, losses = batch_normed(first @ start.mT), {}
    for layer in range(1, max(depths) + 1):
        if layer > 1:
            hidden = batch_normed(matrix(width, source) @ hidden)
        if layer in depths:
            losses[layer] = torch.nn.functional.cross_entropy((head @ hidden).mT, labels)
    return [losses[depth] for depth in depths], first


def _log_gradient(loss: Tensor, weight: Tensor) -> Tensor:
    return torch.autograd.grad(loss, weight, retain_graph=True)[0].norm().log()
