"""Products of float64 matrices as if computed with twice the digits."""

import torch
from torch import Tensor

# Multiples of 2^-26 below 1 have products that are multiples of 2^-52: sums of them below 2 are exact in float64.
_LEADING_BITS = 26


def leading_bits(matrix: Tensor) -> Tensor:
    """Each entry rounded to a multiple of 2^-26; exact, and so is the difference, for entries up to 1 in size."""
    return (matrix * 2.0**_LEADING_BITS).round_().mul_(2.0**-_LEADING_BITS)


def power_of_two(exponent: Tensor) -> Tensor:
    """Two to that integer in float64, by its bits: `ldexp` goes through float32 and overflows at 128."""
    return ((exponent.long() + 1023) << 52).view(torch.float64)


def exact_product(left: Tensor, right: Tensor, right_rest: Tensor | None = None) -> tuple[Tensor, Tensor]:
    r"""$H$ and $R$ with $H + R = A(B + B')$ to about $10^{-22}$, and $R$ as small as $10^{-8}$: twice the usual digits.

    $$ H = A_1B_1, \qquad R = A_1(B - B_1 + B') + (A - A_1)(B + B') $$

    where $A_1$, $B_1$ are the leading 26 bits. Rows of $A$ and columns of $B$ must have lengths up to about 1:
    then no sum in $H$ exceeds 53 bits, and it is computed without any rounding, in whatever order. $R$ is rounded,
    relative to its own size. $B'$ is `right_rest`, the digits that $B$ has no room for.
    """
    left_head, right_head = leading_bits(left), leading_bits(right)
    tail = right - right_head
    if right_rest is not None:
        tail, right = tail + right_rest, right + right_rest
    return left_head @ right_head, left_head @ tail + (left - left_head) @ right
