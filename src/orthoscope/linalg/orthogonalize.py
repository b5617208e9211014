"""Bring all singular values of a matrix near 1, as Muon does to a gradient, by one of several methods."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from orthoscope.linalg._rational import rational_orthogonalization, rational_response
from orthoscope.linalg.polar import check_matrices, polar_factor
from orthoscope.linalg.precision import full_precision

Coefficients = tuple[float, float, float]


@dataclass(frozen=True)
class Method:
    r"""What a method guarantees: singular values in `interval`, relative to `norm`, end in `image`.

    `norm` is what the matrix is divided by: "frobenius", $\|M\|_F$, or "gram", $\|M^\top M\|_F^{1/2}$, which is smaller
    and still not below any singular value. Bounds are for `steps` steps in float32; `fails` says where it is not good.
    """

    steps: int
    norm: str
    interval: tuple[float, float]
    image: tuple[float, float]
    fails: str
    source: str


_fails = (
    "values below the interval are multiplied by about {} and stay small: a spectrum like 1/i² is wrong by 0.7 at n=128"
).format
_NULL_DIRECTIONS = "null directions are amplified to singular value 1"

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "rational": Method(
            2, "gram", (3e-3, 1.0), (0.93, 1.0), _fails("1000 (1700 in float64)"), "Nakatsukasa et al. (2010)"
        ),
        "keller": Method(5, "frobenius", (2e-3, 1.0), (0.68, 1.21), _fails(485), "Jordan (2024)"),
        "polar_express": Method(5, "frobenius", (1e-3, 1.0), (0.84, 1.13), _fails(967), "Amsel et al. (2025)"),
        "cans": Method(5, "frobenius", (1e-3, 1.0), (0.88, 1.12), _fails(1049), "Grishina et al. (2025)"),
        "cubic": Method(15, "frobenius", (5e-3, 1.0), (0.99, 1.0), _fails(438), "Björck & Bowie (1971)"),
        "exact": Method(1, "none", (0.0, 1.0), (1.0, 1.0), _NULL_DIRECTIONS, "polar_factor"),
    }
)

# The fifth-order Newton-Schulz step: 1 is a fixed point where the first two derivatives vanish.
_CLASSICAL: Coefficients = (15 / 8, -5 / 4, 3 / 8)

# Amsel, Persson, Musco & Gower (2025), https://arxiv.org/abs/2505.16932, for [1e-3, 1], as printed.
_POLAR_EXPRESS: tuple[Coefficients, ...] = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
)

# Their margin for half precision: each polynomial is that of x / 1.01, and so is the norm the matrix is divided by.
_MARGIN = 1.01

# Coefficients (a, b, c) of x -> ax + bx³ + cx⁵ for each step; the last is repeated.
_SCHEDULES: Mapping[str, tuple[Coefficients, ...]] = {
    # https://kellerjordan.github.io/posts/muon/: steep at 0, and does not converge.
    "keller": ((3.4445, -4.7750, 2.0315),),
    "polar_express": (*((a / _MARGIN, b / _MARGIN**3, c / _MARGIN**5) for a, b, c in _POLAR_EXPRESS), _CLASSICAL),
    # Grishina, Smirnov & Rakhuba (2025), https://arxiv.org/abs/2506.10935, five steps of degree five.
    "cans": (
        (8.4703, -25.1081, 18.6293),
        (4.1828, -3.1087, 0.5806),
        (3.9619, -2.9541, 0.5630),
        (3.2866, -2.4647, 0.5074),
        (2.2737, -1.6447, 0.4162),
        _CLASSICAL,
    ),
    "cubic": ((3 / 2, -1 / 2, 0.0),),
}

# "rational" and "exact" factorize. "cans" has no margin: a value that bfloat16 rounds to more than 1.01 diverges.
_NEEDS_PRECISION = ("rational", "exact", "cans")
_PRECISE = (torch.float32, torch.float64)

# Small side from which on the rational method is chosen on a CPU: two Cholesky factorizations do less work than
# fifteen products, but small ones are bound by latency. A heuristic.
_RATIONAL_SIDE = 256

# Bytes of matrices in one stack, by device type. Batching saves the overhead of small calls, which a CPU does not
# notice beyond about a megabyte; an accelerator needs more parallel work. Temporaries grow with the stack.
_STACK_BYTES = {"cpu": 1 << 20}
_ACCELERATOR_STACK_BYTES = 1 << 26


def stack_length(nbytes: int, device_type: str) -> int:
    """Number of matrices, or tensors, of `nbytes` bytes in one stack; at least 1."""
    return max(1, _STACK_BYTES.get(device_type, _ACCELERATOR_STACK_BYTES) // max(1, nbytes))


def chosen_method(matrix: Tensor, dtype: torch.dtype | None = None) -> str:
    """The method that "auto" stands for.

    | device | computed in | small side | method |
    |---|---|---|---|
    | CPU | float32, float64 | at least 256 | `rational`: fewest operations, and closest to the polar factor |
    | CPU | float32, float64 | below 256 | `polar_express`: products are faster than small factorizations |
    | any | half precision | any | `polar_express`: has a margin for rounding |
    | accelerator | any | any | `polar_express`: products are faster than factorizations |

    Args:
        matrix: What is orthogonalized.
        dtype: The type of the computation, if it is not the default: float64 for float64, and float32 for all others
            on a CPU; on an accelerator the type of the matrix.
    """
    computed = _compute_dtype(matrix, "polar_express", dtype)
    is_large = min(matrix.shape[-2:]) >= _RATIONAL_SIDE
    return "rational" if matrix.device.type == "cpu" and computed in _PRECISE and is_large else "polar_express"


@torch.no_grad()
def orthogonalize(
    matrix: Tensor, method: str = "auto", steps: int | None = None, *, dtype: torch.dtype | None = None
) -> Tensor:
    r"""$Uf(\Sigma)V^\top$ for $M = U\Sigma V^\top$, with $f$ near 1.

    What $f$ is depends on the method: `orthogonalized_values` computes it, `METHODS` gives its range.

    | method | cost, square | values end in | of those above |
    |---|---|---|---|
    | `rational` | 3 products, 2 Cholesky factors, 4 solves | 0.93 to 1 | 0.003 |
    | `keller`, 5 steps | 15 products | 0.68 to 1.21 | 0.002 |
    | `polar_express`, 5 steps | 15 products | 0.84 to 1.13 | 0.001 |
    | `cans`, 5 steps | 15 products | 0.88 to 1.12 | 0.001 |
    | `cubic`, 15 steps | 30 products | 0.99 to 1 | 0.005 |
    | `exact` | `polar_factor` | 1 | 0 |

    Values are relative to the norm of the method, $\|M\|_F$ or for `rational` $\|M^\top M\|_F^{1/2}$. All methods but
    `exact` leave much smaller ones small: for a spectrum like $i^{-2}$ none of them gives the polar factor. `exact`
    raises all values to 1, noise included.

    Args:
        matrix: Real matrices `(..., rows, columns)` of any scale. A zero matrix gives zero; one that is not finite
            gives nan and does not affect the others.
        method: A name in `METHODS`, or "auto": see `chosen_method`.
        steps: Number of steps; by default that of the method.
        dtype: The type of the computation; see `chosen_method`. Only polynomials take half precision. The scaling is
            always done in float32 or better.

    Returns:
        A new contiguous tensor of the shape and type of `matrix`, without derivative.

    Raises:
        TypeError: If `matrix` is no dense real tensor, or the method cannot be computed in `dtype`.
        ValueError: For an unknown method, fewer than 1 step, or fewer than two dimensions.

    Example:
        >>> update = orthoscope.linalg.orthogonalize(torch.randn(512, 256), "cubic")
        >>> bool((torch.linalg.svdvals(update) > 0.9).all())
        True
    """
    _check(matrix, method, steps, dtype)
    method = chosen_method(matrix, dtype) if method == "auto" else method
    steps = METHODS[method].steps if steps is None else steps
    computed = _compute_dtype(matrix, method, dtype)
    if matrix.numel() == 0:
        return matrix.clone()
    stack = matrix.reshape(-1, *matrix.shape[-2:])
    length = stack_length(stack[0].numel() * computed.itemsize, stack.device.type)
    with full_precision(matrix.device.type):
        if len(stack) <= length:
            result = _orthogonalized(stack, method, steps, computed).to(matrix.dtype)
        else:
            result = torch.empty_like(stack, memory_format=torch.contiguous_format)
            for part, place in zip(stack.split(length), result.split(length), strict=True):
                place.copy_(_orthogonalized(part, method, steps, computed))
    return result.reshape(matrix.shape).contiguous()


def orthogonalized_values(singular_values: Tensor, method: str, steps: int | None = None) -> Tensor:
    """The image under `orthogonalize` of singular values that were divided by the norm of the method, unrounded.

    Args:
        singular_values: Relative to the norm of the method, from 0 to 1.
        method: A name in `METHODS`.
        steps: Number of steps; by default that of the method.
    """
    _check_method(method)
    steps = METHODS[method].steps if steps is None else steps
    if method == "exact":
        return (singular_values > 0).to(singular_values.dtype)
    if method == "rational":
        return rational_response(singular_values, steps)
    values = singular_values / (_MARGIN if method == "polar_express" else 1)
    for a, b, c in polynomial_schedule(method, steps):
        square = values.square()
        values = values * (a + square * (b + square * c))
    return values


def polynomial_schedule(method: str, steps: int) -> tuple[Coefficients, ...]:
    """The coefficients (a, b, c) of each step of a polynomial method; after the published ones the last is repeated."""
    published = _SCHEDULES[method]
    return published[:steps] + published[-1:] * (steps - len(published))


def _check(matrix: Tensor, method: str, steps: int | None, dtype: torch.dtype | None) -> None:
    check_matrices(matrix)
    if not matrix.is_floating_point():
        remedy = "polar_factor takes complex ones" if matrix.is_complex() else "convert it with .float()"
        raise TypeError(f"needs real floating matrices, got {matrix.dtype}: {remedy}")
    if method != "auto":
        _check_method(method)
    if steps is not None and not isinstance(steps, int):
        raise TypeError(f"needs a whole number of steps, got {steps!r}: leave out `steps` for the method's default")
    if steps is not None and steps < 1:
        raise ValueError(f"needs at least 1 step, got {steps}: leave out `steps` for the default of the method")
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"computes in a real floating type, got dtype={dtype!r}: use torch.float32")
    if method in _NEEDS_PRECISION and dtype not in _PRECISE:
        raise TypeError(f"{method!r} needs float32 or float64, got dtype={dtype}: polar_express takes half precision")


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"the methods are {', '.join(METHODS)} and, of orthogonalize, auto; got {method!r}")


def _compute_dtype(matrix: Tensor, method: str, dtype: torch.dtype | None) -> torch.dtype:
    """The default type of the computation is the matrix's; half precision only for polynomials on accelerators."""
    if dtype is not None:
        return dtype
    if matrix.device.type != "cpu" and method not in _NEEDS_PRECISION:
        return matrix.dtype
    return torch.promote_types(matrix.dtype, torch.float32)


def _orthogonalized(stack: Tensor, method: str, steps: int, dtype: torch.dtype) -> Tensor:
    """`orthogonalize` of `(batch, rows, columns)`, computed in `dtype` but for the scaling."""
    if method == "exact":
        # Not scaled: rounding the entries would change the polar factor by eps times the condition number.
        zero = (stack == 0).all(-1, keepdim=True).all(-2, keepdim=True)
        return polar_factor(stack.to(torch.promote_types(stack.dtype, dtype))).masked_fill(zero, 0)
    is_wide = stack.shape[-2] < stack.shape[-1]
    frame = _scaled(stack.mT if is_wide else stack, torch.promote_types(dtype, torch.float32))
    if method == "rational":
        frame = rational_orthogonalization(frame, steps)
    else:
        frame = _polynomial_orthogonalization(frame, method, steps, dtype)
    return frame.mT if is_wide else frame


def _scaled(stack: Tensor, dtype: torch.dtype) -> Tensor:
    """Every matrix divided by its largest entry, so that no square overflows or vanishes; nan if one is not finite."""
    stack = stack.to(torch.promote_types(stack.dtype, dtype))
    # Over one dimension: over two, or as the infinity norm, it costs as much as several products.
    largest = stack.flatten(-2).abs().amax(-1)[..., None, None]
    largest = torch.where(largest == 0, 1, torch.where(largest.isinf(), torch.nan, largest))
    return (stack / largest).to(dtype)


def _polynomial_orthogonalization(frame: Tensor, method: str, steps: int, dtype: torch.dtype) -> Tensor:
    r"""$X \leftarrow aX + X(bA + cA^2)$ with $A = X^\top X$, `steps` times from $X = M/\|M\|_F$, for tall $M$."""
    norm = torch.linalg.vector_norm(frame, dim=(-2, -1), keepdim=True)
    norm = torch.where(norm == 0, 1, norm)
    current = (frame / (norm * _MARGIN if method == "polar_express" else norm)).to(dtype)
    for a, b, c in polynomial_schedule(method, steps):
        gram = current.mT @ current
        if c == 0:
            current = torch.baddbmm(current, current, gram, beta=a, alpha=b)
        else:
            current = torch.baddbmm(current, current, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), beta=a)
    return current
