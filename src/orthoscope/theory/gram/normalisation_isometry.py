r"""What dividing vectors by their lengths does to the isometry $\mathcal{I}$ of their Gram matrix: it never falls.

The predictors take lengths only: of samples for RMS normalisation; of samples about their own mean for layer
normalisation (then $G$ is of the centred samples); of units over the batch for batch normalisation without centring
(then $G$ is the Gram matrix of the units, which are at most as many as samples).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source


@source("joudaki2024", "Definition 4.1 and Lemma 4.2 (corrected)", assumes="positive semi-definite, not zero")
def gram_isometry(gram: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    r"""$\mathcal{I}(M) = \det(M)^{1/n}/(\tfrac1n \operatorname{tr} M)$: 1 only if $M = cI$, 0 if it is singular."""
    eigenvalues = torch.linalg.eigvalsh(gram.double())
    largest = eigenvalues[..., -1:]
    rounding = gram.shape[-1] * torch.finfo(torch.float64).eps
    if bool((largest <= 0).any()) or bool((eigenvalues < -rounding * largest).any()):
        raise ValueError("isometry is defined for positive semi-definite matrices other than 0")
    # What is 0 but for rounding is 0: a determinant of 1e-16 to the power 1/n is not small.
    relative = torch.where(eigenvalues > rounding * largest, eigenvalues / largest, 0.0)
    return relative.log().mean(-1).exp() / relative.mean(-1)


@source(
    "joudaki2024",
    "Theorem 4.3 as an identity; Corollaries 4.4 and 4.5 (corrected)",
    assumes="lengths of the vectors that are normalised: samples (RMS), samples about their mean (layer), "
    "or units over the batch, not centred and no more than samples (batch)",
)
def isometry_gain(norms: Float[Tensor, "*batch vectors"]) -> Float[Tensor, "*batch"]:
    r"""$\mathcal{I}(\tilde G)/\mathcal{I}(G) = \operatorname{mean}(a^2)/\operatorname{GM}(a)^2 \ge 1$ for lengths $a$.

    GM is the geometric mean. $G = D\tilde G D$ with $D = \operatorname{diag}(a)$, so angles do not matter at all.
    """
    lengths = _positive(norms)
    return lengths.square().mean(-1) / (2 * lengths.log().mean(-1)).exp()


@source(
    "joudaki2024",
    "Theorem 4.3, (4.3); Corollaries 4.4 and 4.5 (corrected); Lemmas 6.2 and C.1",
    assumes="lengths as for isometry_gain; equal to it only if all lengths are equal",
)
def isometry_gain_bound(norms: Float[Tensor, "*batch vectors"]) -> Float[Tensor, "*batch"]:
    r"""The lower bound $1 + \operatorname{var}(a)/\bar a^2 = \operatorname{mean}(a^2)/\bar a^2$ of `isometry_gain`.

    It keeps the arithmetic mean where the identity has the geometric one: for small spread it is half of the rise.
    A rotation before batch norm changes the lengths of the units and not $\mathcal{I}(G)$ (Lemma 6.2).
    """
    lengths = _positive(norms)
    return 1 + lengths.var(-1, correction=0) / lengths.mean(-1).square()


def _positive(norms: Float[Tensor, "*batch vectors"]) -> Float[Tensor, "*batch vectors"]:
    lengths = norms.double()
    if not bool(((lengths > 0) & lengths.isfinite()).all()):
        raise ValueError("lengths must be positive numbers: a vector of length 0 cannot be normalised")
    return lengths
