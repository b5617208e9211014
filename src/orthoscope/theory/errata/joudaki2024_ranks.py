"""Joudaki (2024), appendix C.4: ranks of batches of images."""

import torch

from orthoscope.theory.errata.record import Comparison, Erratum

# Samples that are alike but for this much of their squared length: the Gram matrix is 11ᵀ + εI, of full rank.
DIFFERENCE = 1e-4
FEW, MANY = 16, 64


def _rank(samples: int, difference: float, dtype: torch.dtype) -> float:
    """As the table counts: `matrix_rank` of the Gram matrix, with the defaults of PyTorch."""
    gram = 1 + difference * torch.eye(samples, dtype=dtype)
    return float(torch.linalg.matrix_rank(gram))


def _rank_falls() -> Comparison:
    return Comparison(_rank(FEW, DIFFERENCE, torch.float32), "<=", _rank(MANY, DIFFERENCE, torch.float32))


def _full_rank_at_case() -> Comparison:
    return Comparison(_rank(MANY, DIFFERENCE, torch.float64), "=", float(MANY))


def _counted_rank_at_random(generator: torch.Generator) -> Comparison:
    """The eigenvalues are n + ε once and ε: above the tolerance n eps (n + ε), or not, by a factor 2 at least."""
    samples = int(torch.randint(2, 80, (), generator=generator))
    single = bool(torch.randint(2, (), generator=generator))
    dtype = torch.float32 if single else torch.float64
    tolerance = samples**2 * torch.finfo(torch.float32).eps
    visible = bool(torch.randint(2, (), generator=generator))
    factor = 2 + 8 * float(torch.rand((), generator=generator))
    difference = tolerance * (factor if visible else 1 / factor)
    return Comparison(_rank(samples, difference, dtype), "=", float(samples if visible or not single else 1))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-table-c.1",
        source="joudaki2024",
        where="Table C.1, columns n = 256 and n = 512",
        printed="Average rank of Gram matrix of input batches of size n ... CIFAR10 221.06 [n = 256] 203.70 [n = 512]",
        case="Gram matrices 11ᵀ + 10^(-4) I of 16 and of 64 samples, ranked as the table is, by matrix_rank in "
        "float32: 16 and 1",
        corrected="the rank of a batch is at least that of a part of it, so mean ranks do not fall with n; the Gram "
        "matrices above have rank n, as float64 finds, and matrix_rank in float32 counts the eigenvalues above 2^(-23) "
        "n λ_max",
        why="λ_max of samples with a mean grows as n, so the tolerance grows as n², and passes eigenvalues that are "
        "not 0",
        printed_at_case=_rank_falls,
        corrected_at_case=_full_rank_at_case,
        corrected_at_random=_counted_rank_at_random,
    ),
)
