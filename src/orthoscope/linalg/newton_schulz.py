"""Odd polynomials that drive all singular values of a matrix towards 1: products alone."""

import torch
from torch import Tensor

from orthoscope.linalg.rough_products import rough_hermitian_product, sum_with_rough_product

Coefficients = tuple[float, float, float]

# The fifth-order Newton-Schulz step: 1 is a fixed point where the first two derivatives vanish.
_CLASSICAL: Coefficients = (15 / 8, -5 / 4, 3 / 8)

# Jordan (2024), https://kellerjordan.github.io/posts/muon/: steep at 0, and never settles.
_KELLER: tuple[Coefficients, ...] = ((3.4445, -4.7750, 2.0315),)

# Amsel, Persson, Musco & Gower (2025), https://arxiv.org/abs/2505.16932, for [1e-3, 1], as they print them.
_POLAR_EXPRESS_PRINTED: tuple[Coefficients, ...] = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
)

# Their margin for half precision: each polynomial is that of x / 1.01, and so is the norm the matrix is divided by.
MARGIN = 1.01
_POLAR_EXPRESS = (*((a / MARGIN, b / MARGIN**3, c / MARGIN**5) for a, b, c in _POLAR_EXPRESS_PRINTED), _CLASSICAL)

# Grishina, Smirnov & Rakhuba (2025), https://arxiv.org/abs/2506.10935, five steps of degree five; then the classical.
_CANS: tuple[Coefficients, ...] = (
    (8.4703, -25.1081, 18.6293),
    (4.1828, -3.1087, 0.5806),
    (3.9619, -2.9541, 0.5630),
    (3.2866, -2.4647, 0.5074),
    (2.2737, -1.6447, 0.4162),
    _CLASSICAL,
)

_CUBIC: tuple[Coefficients, ...] = ((3 / 2, -1 / 2, 0.0),)

_SCHEDULES = {"keller": _KELLER, "polar_express": _POLAR_EXPRESS, "cans": _CANS, "cubic": _CUBIC}


def polynomial_schedule(name: str, steps: int) -> tuple[Coefficients, ...]:
    """The coefficients (a, b, c) of each step; after the published ones the last is repeated."""
    published = _SCHEDULES[name]
    return published[:steps] + published[-1:] * (steps - len(published))


def polynomial_response(singular_values: Tensor, name: str, steps: int) -> Tensor:
    r"""What the steps make of $\sigma/\|M\|_F$: $p_T \circ \dots \circ p_1$ with $p_t(x) = ax + bx^3 + cx^5$."""
    values = singular_values / (MARGIN if name == "polar_express" else 1)
    for a, b, c in polynomial_schedule(name, steps):
        square = values.square()
        values = values * (a + square * (b + square * c))
    return values


def polynomial_orthogonalization(frame: Tensor, name: str, steps: int, dtype: torch.dtype) -> Tensor:
    r"""$X \leftarrow aX + X(bA + cA^2)$ with $A = X^\top X$, `steps` times from $X = M/\|M\|_F$, for tall $M$.

    `frame` is $(n, k)$ or $(\text{batch}, n, k)$ with $n \ge k$, of a norm whose square is a number, in float32 or
    float64; the steps are done in `dtype`. A zero matrix stays zero.
    """
    norm = torch.linalg.vector_norm(frame, dim=(-2, -1), keepdim=True)
    norm = torch.where(norm == 0, 1, norm)
    current = (frame / (norm * MARGIN if name == "polar_express" else norm)).to(dtype)
    following = torch.empty_like(current)
    gram, polynomial = (current.new_empty(*current.shape[:-2], *2 * current.shape[-1:]) for _ in range(2))
    for a, b, c in polynomial_schedule(name, steps):
        rough_hermitian_product(current.mT, current, out=gram)
        if c == 0:
            sum_with_rough_product(current, current, gram, following, alpha=b, beta=a)
        else:
            sum_with_rough_product(gram, gram, gram, polynomial, alpha=c, beta=b)
            sum_with_rough_product(current, current, polynomial, following, beta=a)
        current, following = following, current
    return current
