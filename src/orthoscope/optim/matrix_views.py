"""Which matrices `(out, in)` a parameter holds: the one place that decides what Muon orthogonalises."""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from torch import Tensor

from orthoscope.linalg.matrices import group_matrices, weight_of_group_matrices


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

    `parts` cuts the outputs into blocks of equal size. Where query, key and value differ in size, as in grouped-query
    attention, or alternate from head to head, cut into heads. Plain numbers only, so that a view can be compared,
    hashed and saved; in a parameter group it is the tuple `view.plain`.
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
        """The view as a tuple of numbers, from which `MatrixView(*plain)` makes it again."""
        return astuple(self)

    @property
    def is_plain(self) -> bool:
        """Whether a parameter with two dimensions is its own matrix."""
        return self.parts == 1 and not self.transposed

    def matrices(self, tensor: Tensor) -> Tensor:
        """A full parameter, or an update of its shape, as `(count, rows, columns)`; a view where the layout allows."""
        if tensor.ndim == 2 and self.is_plain:
            return tensor.unsqueeze(0)
        if self.batched:
            stack = tensor.reshape(-1, *tensor.shape[-2:])
            matrices = stack.mT if self.transposed else stack
        else:
            matrices = group_matrices(tensor, self.groups, self.transposed)
        return matrices.reshape(len(matrices) * self.parts, -1, matrices.shape[2]) if self.parts > 1 else matrices

    def assemble(self, matrices: Tensor, shape: Sequence[int]) -> Tensor:
        """The tensor of that shape whose `matrices` these are."""
        if len(shape) == 2 and self.parts == 1 and not self.transposed:
            return matrices.squeeze(0)
        count, rows, columns = matrices.shape
        whole = matrices.reshape(count // self.parts, rows * self.parts, columns)
        if self.batched:
            return (whole.mT if self.transposed else whole).reshape(tuple(shape))
        return weight_of_group_matrices(whole, shape, self.transposed)

    def shape(self, parameter_shape: Sequence[int]) -> tuple[int, int, int]:
        """`(count, rows, columns)` of a parameter; refuses one that cannot be cut into equal parts."""
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
