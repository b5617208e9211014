r"""The matrices `(out, in)` that a parameter holds, and the scale of Muon's update for a matrix of their shape.

An orthogonalized update $O$ has singular values 1: $\|O\|_2 = 1$, and its entries have root mean square
$1/\sqrt{\max(\text{out}, \text{in})}$, whatever the gradient was. The scale $s$ decides which norm of $\eta s O$ is
equal for matrices of different shapes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import torch
from torch import Tensor

from orthoscope.linalg import group_matrices, weight_of_group_matrices


@dataclass(frozen=True)
class MatrixView:
    """How a parameter is read as `count` matrices of `rows` outputs and `columns` inputs each.

    | parameter | stored as | view | matrices |
    |---|---|---|---|
    | linear, convolution | `(out, in, *k)` | `MatrixView()` | `(1, out, in·k·k)` |
    | fused query, key and value | `(3·out, in)` | `MatrixView(parts=3)` | `(3, out, in)` |
    | the same, each of h heads on its own | `(3·h·d, in)` | `MatrixView(parts=3 * h)` | `(3·h, d, in)` |
    | grouped convolution | `(out, in/g, *k)` | `MatrixView(parts=g)` | `(g, out/g, in/g·k·k)` |
    | transposed convolution | `(in, out/g, *k)` | `MatrixView(groups=g, transposed=True)` | `(g, out/g, in/g·k·k)` |
    | `Conv1D` of GPT-2 | `(in, 3·out)` | `MatrixView(parts=3, transposed=True)` | `(3, out, in)` |
    | experts | `(*e, out, in)` | `MatrixView(batched=True)` | `(e, out, in)` |
    | gated experts | `(e, in, 2·out)` | `MatrixView(2, transposed=True, batched=True)` | `(2·e, out, in)` |

    Only plain numbers, so that a view can be compared, hashed and saved; in a parameter group it is the tuple
    `view.plain`.

    Args:
        parts: Number of equal blocks into which the outputs are cut. Where query, key and value differ in size, as in
            grouped-query attention, or alternate from head to head, cut into heads.
        groups: Groups of a transposed convolution; of any other convolution they are `parts`.
        transposed: The parameter is stored `(in, out)`.
        batched: All dimensions but the last two are a batch.
    """

    parts: int = 1
    groups: int = 1
    transposed: bool = False
    batched: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.parts, int) and isinstance(self.groups, int)):
            raise TypeError(
                f"parts and groups must be whole numbers, got {self.parts!r} and {self.groups!r}: convert with int()"
            )
        if self.parts < 1 or self.groups < 1:
            raise ValueError(f"parts and groups must be at least 1, got {self.parts} and {self.groups}")
        if self.groups > 1 and (self.batched or not self.transposed):
            raise ValueError("groups are of transposed convolutions: write parts=groups for any other parameter")

    @property
    def plain(self) -> tuple[int, int, bool, bool]:
        """The view as a tuple of numbers; `MatrixView(*plain)` is equal to the view."""
        return astuple(self)

    def matrices(self, tensor: Tensor) -> Tensor:
        """Return a full parameter, or a tensor of its shape, as `(count, rows, columns)`; a view where possible."""
        if self._is_one_matrix(tensor.shape):
            return tensor.unsqueeze(0)
        if self.batched:
            stack = tensor.reshape(-1, *tensor.shape[-2:])
            matrices = stack.mT if self.transposed else stack
        else:
            matrices = group_matrices(tensor, self.groups, self.transposed)
        return matrices.reshape(len(matrices) * self.parts, -1, matrices.shape[2]) if self.parts > 1 else matrices

    def assemble(self, matrices: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the tensor of the given shape whose `matrices` these are."""
        if self._is_one_matrix(shape):
            return matrices.squeeze(0)
        count, rows, columns = matrices.shape
        whole = matrices.reshape(count // self.parts, rows * self.parts, columns)
        if self.batched:
            return (whole.mT if self.transposed else whole).reshape(tuple(shape))
        return weight_of_group_matrices(whole, shape, self.transposed)

    def shape(self, parameter_shape: Sequence[int]) -> tuple[int, int, int]:
        """Return `(count, rows, columns)` of a parameter.

        Raises:
            ValueError: If the parameter has fewer than two dimensions, or cannot be cut into equal parts.
        """
        shape = tuple(parameter_shape)
        if len(shape) < 2:
            raise ValueError(f"a parameter of shape {shape} holds no matrix: leave it to AdamW, with use_muon=False")
        if self.batched:
            count, (rows, columns) = math.prod(shape[:-2]), shape[-2:]
            if self.transposed:
                rows, columns = columns, rows
        elif self.transposed:
            count, rows, columns = self.groups, shape[1], shape[0] // self.groups * math.prod(shape[2:])
        else:
            count, rows, columns = 1, shape[0], math.prod(shape[1:])
        if rows % self.parts or (self.transposed and not self.batched and shape[0] % self.groups):
            raise ValueError(
                f"a parameter of shape {shape} cannot be cut into equal blocks by {self}: correct its parts"
            )
        return count * self.parts, rows // self.parts, columns

    def _is_one_matrix(self, shape: Sequence[int]) -> bool:
        """Whether a parameter of this shape is itself its only matrix."""
        return len(shape) == 2 and self.parts == 1 and not self.transposed


# Scales as functions of (rows, columns); `Muon` has their formulas.
SCALES: Mapping[str, Callable[[int, int], float]] = {
    # Jordan (2024), also the default of `torch.optim.Muon`.
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    # Liu et al. (2025): entries have the root mean square 0.2 η, about that of AdamW's updates, so that its learning
    # rate and weight decay can be used.
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    # ‖ΔW‖ from RMS to RMS, max rms(ΔWx) / rms(x) = √(in/out) ‖ΔW‖₂, is η: one step changes activations of size 1 by at
    # most η, in layers of every shape (Ju, Orthogonality in Neural Networks: Weights and Gradients, slides, Uppsala
    # University, 2025, "Controlling Output Change").
    "rms_to_rms": lambda rows, columns: math.sqrt(rows / columns),
    "none": lambda rows, columns: 1.0,  # the spectral norm of the update is η
}


@cache
def update_scale(name: str, view: tuple[Any, ...], shape: torch.Size) -> float:
    """The factor of the learning rate for a parameter's matrices: `SCALES[name]` of their shape, 0 if it is empty."""
    _, rows, columns = MatrixView(*view).shape(shape)
    return SCALES[name](rows, columns) if rows * columns else 0.0


def check_scale(scale: str) -> None:
    """Raise if `scale` is no key of `SCALES`."""
    if scale not in SCALES:
        meant = get_close_matches(str(scale), SCALES, 1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {scale!r}{hint}")
