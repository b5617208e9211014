"""All singular values of a matrix brought near 1, by a choice of methods: what Muon does to a gradient."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from orthoscope.linalg.newton_schulz import polynomial_orthogonalization, polynomial_response
from orthoscope.linalg.onednn import suits
from orthoscope.linalg.polar import polar_factor
from orthoscope.linalg.precision import full_precision
from orthoscope.linalg.rational import rational_orthogonalization, rational_response
from orthoscope.linalg.transformed import is_transformed

# A stack larger than the second-level cache is slower than its parts.
_CHUNK_BYTES = 1 << 19

# From this size of the small side a Cholesky factorisation keeps up with products, on a CPU.
_RATIONAL_SIDE = 256

# From this size on a product of one matrix is worth a call of its own, where another library is faster.
_ALONE = 192

_FACTORISED = (torch.float32, torch.float64)

# Norms between which the fourth powers of entries that matter are numbers of float32.
_ORDINARY = (1e-6, 1e6)

# The first two factorise. The third has no margin: a value that bfloat16 rounds to more than 1.01 grows to thousands.
_NEEDS_PRECISION = ("rational", "exact", "cans")


@dataclass(frozen=True)
class Method:
    r"""What a method promises: singular values in `interval`, relative to `norm`, end in `image`.

    `norm` is what the matrix is divided by: "frobenius", $\|M\|_F$, or "gram", $\|M^\top M\|_F^{1/2}$, which is smaller
    and still no singular value exceeds it. Bounds are for `steps` steps in float32.
    """

    steps: int
    norm: str
    interval: tuple[float, float]
    image: tuple[float, float]
    fails: str
    source: str


_FADES = (
    "values below the interval are multiplied by about {} and stay small: a spectrum like 1/i² is wrong by 0.7 at n=128"
)

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "rational": Method(
            2, "gram", (3e-3, 1.0), (0.93, 1.0), _FADES.format("1000 (1700 in float64)"), "Nakatsukasa et al. (2010)"
        ),
        "keller": Method(5, "frobenius", (2e-3, 1.0), (0.68, 1.21), _FADES.format(485), "Jordan (2024)"),
        "polar_express": Method(5, "frobenius", (1e-3, 1.0), (0.84, 1.13), _FADES.format(967), "Amsel et al. (2025)"),
        "cans": Method(5, "frobenius", (1e-3, 1.0), (0.88, 1.12), _FADES.format(1049), "Grishina et al. (2025)"),
        "cubic": Method(15, "frobenius", (5e-3, 1.0), (0.99, 1.0), _FADES.format(438), "Björck & Bowie (1971)"),
        "exact": Method(
            1, "none", (0.0, 1.0), (1.0, 1.0), "vanishing values become 1: noise fills what rank lacks", "polar_factor"
        ),
    }
)


def chosen_method(matrix: Tensor, dtype: torch.dtype | None = None) -> str:
    """What "auto" stands for with this matrix: "rational" for large ones on a CPU, else "polar_express".

    Large is a small side of 256 or more, in float32 or float64. Small matrices, half precision and accelerators are
    where products win over factorisations.
    """
    large = min(matrix.shape[-2:]) >= _RATIONAL_SIDE
    return (
        "rational"
        if large and matrix.device.type == "cpu" and _compute(matrix, dtype) in _FACTORISED
        else "polar_express"
    )


def orthogonalized_values(singular_values: Tensor, method: str, steps: int | None = None) -> Tensor:
    """What `orthogonalize` makes of singular values that were divided by the norm of the method, but for rounding."""
    record = _record(method)
    steps = record.steps if steps is None else steps
    if method == "exact":
        return (singular_values > 0).to(singular_values.dtype)
    if method == "rational":
        return rational_response(singular_values, steps)
    return polynomial_response(singular_values, method, steps)


@torch.no_grad()
def orthogonalize(
    matrix: Tensor, method: str = "auto", steps: int | None = None, *, dtype: torch.dtype | None = None
) -> Tensor:
    r"""$Uf(\Sigma)V^\top$ for $M = U\Sigma V^\top$, $(\ldots, \text{rows}, \text{columns})$, with $f$ near 1.

    What $f$ is depends on the method: `orthogonalized_values` computes it, `METHODS` says in which range it stays.

    | method | cost, square | values end in | of those above |
    |---|---|---|---|
    | `rational` | 4 products, 2 Cholesky inverses | 0.93 to 1 | 0.003 |
    | `keller`, 5 steps | 15 products | 0.68 to 1.21 | 0.002 |
    | `polar_express`, 5 steps | 15 products | 0.84 to 1.13 | 0.001 |
    | `cans`, 5 steps | 15 products | 0.88 to 1.12 | 0.001 |
    | `cubic`, 15 steps | 30 products | 0.99 to 1 | 0.005 |
    | `exact` | `polar_factor` | 1 | 0 |

    Values are relative to the norm of the method, $\|M\|_F$ or for `rational` $\|M^\top M\|_F^{1/2}$. All methods but
    `exact` leave much smaller ones small: the update of a spectrum like $i^{-2}$ is not its polar factor, at any number
    of products worth paying for. `exact` raises them all, noise included. `auto` is `chosen_method`.

    The result has the shape and type of `matrix`, never its memory, and carries no derivative. It is computed in
    `dtype`: float64 for float64, else float32, unless told; half precision must be asked for, because some processors
    have no instruction for it, and takes a polynomial. Only the scaling is done in more digits, and by the largest
    entry where the norm is not an ordinary number, so entries of any size are safe. A zero matrix gives zero; one that
    is not finite gives nan and leaves the others of its batch alone. Stacks go through in parts that fit a cache.
    """
    compute = _checked(matrix, method, steps, dtype)
    method = chosen_method(matrix, dtype) if method == "auto" else method
    steps = METHODS[method].steps if steps is None else steps
    if matrix.numel() == 0:
        return matrix.clone()
    stack = matrix.reshape(-1, *matrix.shape[-2:])
    parts = _cached(stack, compute)
    with full_precision(matrix.device.type):
        found = (_orthogonalized(part, method, steps, compute).to(matrix.dtype) for part in parts)
        if len(parts) == 1:
            return next(found).contiguous().view(matrix.shape)
        if is_transformed(matrix):
            # Torch cannot follow what is written to a place.
            return torch.cat([part.reshape(-1, *matrix.shape[-2:]) for part in found]).view(matrix.shape)
        result = torch.empty(stack.shape, dtype=matrix.dtype, device=matrix.device)
        for part, place in zip(found, _cached(result, compute), strict=True):
            place.copy_(part)
    return result.view(matrix.shape)


def _cached(stack: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Parts of a stack that stay in cache; matrices `(rows, columns)` one by one where they are large."""
    if stack.device.type != "cpu":
        return (stack,)
    count = _CHUNK_BYTES // (stack[0].numel() * dtype.itemsize)
    # Another library may be faster for one matrix than any is for a stack.
    alone = min(stack.shape[-2:]) >= _ALONE and dtype == torch.float32 and suits(stack[0], stack[0].mT)
    return stack.unbind() if count <= 1 or alone else stack.split(count)


def _orthogonalized(matrix: Tensor, method: str, steps: int, dtype: torch.dtype) -> Tensor:
    wide = matrix.shape[-2] < matrix.shape[-1]
    if method == "exact":
        # Not scaled: a rounding of the entries moves the polar factor by as many as the condition number.
        zero = (matrix == 0).all(-1, keepdim=True).all(-2, keepdim=True)
        return polar_factor(matrix.to(torch.promote_types(matrix.dtype, dtype))).masked_fill(zero, 0)
    scaled = _scaled(matrix, torch.promote_types(dtype, torch.float32))
    frame = scaled.mT if wide else scaled
    if method == "rational":
        frame = rational_orthogonalization(frame, steps)
    else:
        frame = polynomial_orthogonalization(frame, method, steps, dtype)
    return frame.mT if wide else frame


def _scaled(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Divided by its largest entry if its norm is not ordinary; all nan if one entry is not finite.

    So no square overflows or vanishes, nor one of the Gram matrix, and a matrix does not depend on its neighbours.
    """
    matrix = matrix.to(torch.promote_types(matrix.dtype, dtype))
    ordinary: Tensor | None = None
    # Asked of a CPU only: an accelerator would wait, and a compiler does not know.
    if matrix.device.type == "cpu" and not is_transformed(matrix):
        norm = torch.linalg.vector_norm(matrix, dim=(-2, -1), keepdim=True)
        ordinary = (norm > _ORDINARY[0]) & (norm < _ORDINARY[1])
        if bool(ordinary.all()):
            return matrix.to(dtype)
    # Over one dimension, and not as a norm: over two, or as the infinity norm, it costs as much as several products.
    largest = matrix.flatten(-2).abs().amax(-1)[..., None, None]
    largest = torch.where(largest == 0, 1, torch.where(largest.isinf(), torch.nan, largest))
    return (matrix / (largest if ordinary is None else torch.where(ordinary, 1, largest))).to(dtype)


def _compute(matrix: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    return torch.float64 if matrix.dtype == torch.float64 else torch.float32


def _record(method: str) -> Method:
    if method not in METHODS:
        raise ValueError(f"the methods are {', '.join(METHODS)} and, of orthogonalize, auto; got {method!r}")
    return METHODS[method]


def _checked(matrix: Tensor, method: str, steps: int | None, dtype: torch.dtype | None) -> torch.dtype:
    if not torch.is_tensor(matrix):
        raise TypeError(f"needs a tensor, got {type(matrix).__name__}: convert it with torch.as_tensor")
    if matrix.layout != torch.strided:
        raise TypeError(f"needs dense matrices, got {matrix.layout}: convert it with .to_dense()")
    if matrix.ndim < 2:
        raise ValueError(f"needs matrices (*batch, rows, columns), got shape {tuple(matrix.shape)}: reshape it")
    if not matrix.is_floating_point():
        remedy = "polar_factor takes complex ones" if matrix.is_complex() else "convert it with .float()"
        raise TypeError(f"needs real floating matrices, got {matrix.dtype}: {remedy}")
    if method != "auto":
        _record(method)
    check_steps(steps)
    check_compute_dtype(method, dtype)
    return _compute(matrix, dtype)


def check_steps(steps: object) -> None:
    """Refuse a number of steps that no method can take; None is the method's own."""
    if steps is None:
        return
    if not isinstance(steps, int):
        raise TypeError(f"needs a whole number of steps, got {steps!r}: leave out `steps` for the method's default")
    if steps < 1:
        raise ValueError(f"needs at least 1 step, got {steps}: leave out `steps` for the default of the method")


def check_compute_dtype(method: str, dtype: torch.dtype | None) -> None:
    """Refuse a type that a method cannot be computed in."""
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"computes in a real floating type, got dtype={dtype!r}: use torch.float32")
    if method in _NEEDS_PRECISION and dtype not in _FACTORISED:
        raise TypeError(f"{method!r} needs float32 or float64, got dtype={dtype}: polar_express takes half precision")
