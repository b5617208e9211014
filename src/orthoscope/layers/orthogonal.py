"""An orthogonal weight by construction: whatever an optimizer does to its coordinates, the weight is orthonormal."""

import warnings
from typing import TypeVar

import torch
from torch import nn

from orthoscope.layers.arguments import check_beginning, check_module, map_for, matrix_weight, partial_size
from orthoscope.layers.checkpoints import translate_when_loading
from orthoscope.layers.layout import Layout
from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.registration import register
from orthoscope.layers.rounding import computing_dtype
from orthoscope.layers.starting_weight import starting_weight

Module = TypeVar("Module", bound=nn.Module)


def orthogonal(
    module: Module,
    name: str = "weight",
    map: str = "auto",
    *,
    num_reflections: int | None = None,
    num_rotations: int | None = None,
    determinant: int | None = None,
    start: str | None = None,
    generator: torch.Generator | None = None,
) -> Module:
    r"""Make a weight orthonormal for good, $W^\mathsf{H}W = I$ (if wide, $WW^\mathsf{H} = I$). Returns the module.

    A weight of more than two dimensions is a batch of matrices. The weight of a convolution is, for every group, the
    matrix `(out, in·k·k)` of one output position; that does not make the convolution an isometry of images, for which
    see `orthogonal_convolution`. The weight `(4·hidden, hidden)` of an `nn.LSTM` is one matrix, not one for each gate.
    The coordinates are a new parameter: make the optimizer after this call, with `weight_decay=0` for them, since decay
    moves the weight within its manifold. Another module that shares the weight keeps the old one.

    `map`: "householder", "cayley", "exponential" (a whole base frame is stored) or "givens"; "auto" takes the second,
    for tall weights the first, which is about as fast there, and says which in `repr(module)`. Complex weights need
    "cayley" or "exponential".
    `num_reflections`, `num_rotations`: fewer than the full number is a cheaper, partial family. Rotations come in
    fans, each coordinate with all later ones, so that $p$ fans of $n$ rows are $p(2n-p-1)/2$ rotations.
    `determinant`: +1 or -1, for square real weights; by default that of the starting weight. Training cannot change it.

    `start`: a weight that is orthonormal to rounding, $\max|W^\mathsf{H}W - I| \le 2\varepsilon_\text{stored} +
    10\sqrt n\,\varepsilon_\text{computed}$, is kept. Any other is replaced by the nearest one, with a warning, or by
    "nearest" without it; "haar" draws one uniformly from `generator`, whatever the weight; "keep" refuses to replace.

    float16 and bfloat16 weights are computed in float32, also under autocast. Assigning an orthonormal
    `module.weight` keeps it, any other is refused; `load_state_dict` also takes checkpoints that hold the plain weight.
    `torch.nn.utils.parametrize.cached()` computes the weight once for many uses; `remove_parametrizations` leaves it.
    Derivatives are of any order by `backward`; forward mode, so `torch.func.jvp` and `hessian`, is for "cayley" and
    "exponential" only.
    """
    check_module(module, generator)
    weight = matrix_weight(module, name, start)
    layout = Layout.of(module, name)
    chosen = map == "auto"
    map = map_for(layout, weight, map, num_reflections, num_rotations)
    size = partial_size(layout, num_reflections, num_rotations)
    check_beginning(layout, weight, determinant, start)
    # In full precision at first: rounded to bfloat16, a member of a partial family is none any more.
    computed = computing_dtype(weight.dtype)
    path = f"parametrizations.{name}[0]"
    parametrization = OrthogonalParametrization(
        layout, map, size, dtype=computed, device=weight.device, chosen=chosen, path=path
    )
    beginning, remark = weight.detach(), None
    if not weight.is_meta:
        beginning, remark = starting_weight(parametrization, beginning, start, determinant, generator)
    register(module, name, parametrization, beginning.to(device=weight.device, dtype=computed))
    translate_when_loading(module)
    if remark is not None:
        warnings.warn(remark, stacklevel=2)
    return module
