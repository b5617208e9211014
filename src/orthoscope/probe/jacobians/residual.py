r"""Jacobians of the residual branches of any model, and their singular triplets.

Small Jacobians are formed and factorized; of large ones the largest triplets are computed by products.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.linalg.polar import svd
from orthoscope.linalg.top_triplets import block_width, top_triplets
from orthoscope.probe.batches import as_call
from orthoscope.probe.hooks import observable_modules, unwrapped
from orthoscope.probe.jacobians._operator import JacobianOperator
from orthoscope.probe.jacobians.additions import AdditionRecorder
from orthoscope.probe.jacobians.branches import Branch, module_branches, residual_branches
from orthoscope.probe.jacobians.replica import arguments, differentiable_pass, replica

# Dimensions up to which a matrix is formed: in float64 its SVD then takes well under a second.
LARGEST_DENSE = 768
TOP = 11  # one more than the usual number of classes, which the rank is compared with
_ENERGY_PROBES = 16


class Spectrum(NamedTuple):
    """Singular triplets, largest first, and the energy of all of them."""

    values: Float[Tensor, "samples count"]  # in float64
    left: Float[Tensor, "samples outputs count"]
    right: Float[Tensor, "samples inputs count"]
    errors: Float[Tensor, "samples count"]  # each value is that near to a true one; 0 where the matrix was formed
    energy: Float[Tensor, "samples"]  # the sum of all squared singular values
    energy_error: Float[Tensor, "samples"]  # standard error; 0 where the matrix was formed


def spectrum(operator: JacobianOperator, top: int | None, tolerance: float, generator: torch.Generator) -> Spectrum:
    """All triplets, or the `top` largest; the matrix is formed if its smaller side is at most `LARGEST_DENSE`."""
    smaller = min(operator.shape)
    if max(operator.shape) <= LARGEST_DENSE or smaller <= (top or TOP) + 1:
        return _dense(operator, smaller if top is None else min(top, smaller))
    return _by_products(operator, min(top or TOP, smaller), tolerance, generator)


def _dense(operator: JacobianOperator, count: int) -> Spectrum:
    matrix = operator.dense().double()
    left, values, right = svd(matrix)
    values = values.abs()  # LAPACK may return -0.0
    energy = values.square().sum(-1)
    nothing = torch.zeros_like(energy)
    kept = values[..., :count]
    return Spectrum(kept, left[..., :count], right.mT[..., :count], torch.zeros_like(kept), energy, nothing)


def _by_products(operator: JacobianOperator, count: int, tolerance: float, generator: torch.Generator) -> Spectrum:
    def gaussian(columns: int) -> Tensor:
        # Drawn on the CPU: the same on every device.
        drawn = torch.randn(operator.samples, operator.inputs, columns, generator=generator, dtype=operator.dtype)
        return drawn.to(operator.device)

    width = min(block_width(count), *operator.shape)
    found = top_triplets(operator.multiply, operator.multiply_transposed, gaussian(width), count, tolerance=tolerance)
    known = found.values.square().sum(-1)
    # Hutch++: what the triplets do not explain, from random vectors orthogonal to them.
    probes = gaussian(_ENERGY_PROBES)
    probes = probes - found.right @ (found.right.mT @ probes)
    rest = operator.multiply(probes).double().square().sum(-2)
    error = rest.std(-1) / _ENERGY_PROBES**0.5
    return Spectrum(found.values.abs(), found.left, found.right, found.errors, known + rest.mean(-1), error)


@dataclass(frozen=True)
class BlockJacobian:
    r"""$J = U\,\mathrm{diag}(\sigma)\,V^\top$ of one residual branch, for every sample, without the skip connection.

    Attributes:
        name: Module that adds the branch.
        skip: "identity"; "projection", where the skip is a layer of its own; or "none".
        activation: Activation after the sum, whose slope multiplies the Jacobian; "" if there is none.
        operator: Products with $J$ and $J^\top$.
        spectrum: Singular triplets.
        input: Representation before the block.
        output: Representation after the block.
    """

    name: str
    skip: str
    activation: str
    operator: JacobianOperator = field(repr=False)
    spectrum: Spectrum = field(repr=False)
    input: Float[Tensor, "samples inputs"] = field(repr=False)
    output: Float[Tensor, "samples outputs"] = field(repr=False)

    def __str__(self) -> str:
        outputs, inputs = self.operator.shape
        largest = self.singular_values[:, 0].median()
        return f"{self.name}: {outputs}×{inputs} Jacobian beside skip {self.skip}, largest singular value {largest:.3g}"

    __repr__ = __str__

    @property
    def singular_values(self) -> Float[Tensor, "samples count"]:
        """Largest first, in float64."""
        return self.spectrum.values

    @property
    def left(self) -> Float[Tensor, "samples outputs count"]:
        """Left singular vectors, as columns."""
        return self.spectrum.left

    @property
    def right(self) -> Float[Tensor, "samples inputs count"]:
        """Right singular vectors, as columns."""
        return self.spectrum.right

    @property
    def energy(self) -> Float[Tensor, "samples"]:
        r"""$\|J\|_F^2$, an estimate where only the largest singular values were computed."""
        return self.spectrum.energy

    @property
    def square(self) -> bool:
        """Whether it maps a space to itself, so that it can be compared with others of that space."""
        return self.skip != "projection" and self.operator.inputs == self.operator.outputs


@dataclass(frozen=True)
class ResidualJacobians(Sequence[BlockJacobian]):
    """The blocks of a network in forward order, as a sequence.

    Attributes:
        blocks: One Jacobian per residual branch.
        left_out: By module, why its additions are not residual branches.
    """

    blocks: tuple[BlockJacobian, ...]
    left_out: Mapping[str, str]

    @overload
    def __getitem__(self, index: int) -> BlockJacobian: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BlockJacobian, ...]: ...
    def __getitem__(self, index: int | slice) -> BlockJacobian | tuple[BlockJacobian, ...]:
        return self.blocks[index]

    def __len__(self) -> int:
        return len(self.blocks)

    def __str__(self) -> str:
        return "\n".join([f"{len(self.blocks)} residual branches", *(f"  {block}" for block in self.blocks)])

    __repr__ = __str__

    @property
    def path(self) -> list[Float[Tensor, "samples _"]]:
        """The input of every block, and the output of the last."""
        return [block.input for block in self.blocks] + [self.blocks[-1].output]


def residual_jacobians(
    model: nn.Module,
    sample: Any,
    blocks: Sequence[str] | None = None,
    top: int | None = None,
    *,
    token: int | None = None,
    statistics: Any = None,
    dtype: torch.dtype | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> ResidualJacobians:
    r"""$J_i = \partial F_i/\partial h_i$ of every residual branch, $h_{i+1} = h_i + F_i(h_i)$, with its SVD.

    Branches are found in one forward pass of a copy: an addition is residual if one operand was computed from the
    other. If an activation follows the sum, its slope multiplies the Jacobian; a normalization there does not.

    Args:
        model: Copied, and never run itself; the operators keep the copy.
        sample: A batch of one or more samples, each with a Jacobian of its own.
        blocks: Names of modules: the branches within them or, for a module that adds nothing, the module itself. By
            default all branches.
        top: Number of singular triplets. By default all of them up to 768 dimensions, and beyond the 11 largest, each
            with an error bound.
        token: Index of one token, for $\partial F_t/\partial h_t$; by default all tokens together.
        statistics: A batch whose statistics batch norm uses; by default its running ones.
        dtype: Type of the computation, by default that of the model.
        tolerance: Relative error bound of the largest triplets.
        seed: Of random start vectors.

    Raises:
        ValueError: If no residual branch is found, or an argument does not fit the model.
    """
    seen = recorded(model, sample, blocks or (), statistics, dtype)
    found, left_out = residual_branches(seen.sums, unwrapped(model))
    chosen = found if blocks is None else _chosen(found, seen, blocks)
    if not chosen:
        raise ValueError(_nothing(left_out))
    generator = torch.Generator().manual_seed(seed)
    return ResidualJacobians(tuple(_measured(branch, top, token, tolerance, generator) for branch in chosen), left_out)


def layer_jacobians(
    model: nn.Module,
    sample: Any,
    layers: Sequence[str] = ("",),
    top: int | None = None,
    *,
    token: int | None = None,
    statistics: Any = None,
    dtype: torch.dtype | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> ResidualJacobians:
    r"""$\partial\,\text{output}/\partial\,\text{input}$ of whole modules, with their skip connections.

    Of the tensors that a module takes and returns, the first floating-point ones count.

    Args:
        model: As for `residual_jacobians`.
        sample: As for `residual_jacobians`.
        layers: Names of modules; "" is the whole network.
        top: As for `residual_jacobians`.
        token: As for `residual_jacobians`.
        statistics: As for `residual_jacobians`.
        dtype: As for `residual_jacobians`.
        tolerance: As for `residual_jacobians`.
        seed: As for `residual_jacobians`.
    """
    seen = recorded(model, sample, layers, statistics, dtype)
    chosen = module_branches(seen.calls, layers)
    generator = torch.Generator().manual_seed(seed)
    return ResidualJacobians(tuple(_measured(one, top, token, tolerance, generator) for one in chosen), {})


def recorded(
    model: nn.Module,
    sample: Any,
    names: Sequence[str] = (),
    statistics: Any = None,
    dtype: torch.dtype | None = None,
) -> AdditionRecorder:
    """One pass of a copy: its additions, and the calls of the modules named."""
    known = {name for name, _ in observable_modules(unwrapped(model))}
    for name in names:
        if name not in known:
            raise ValueError(f"the model has no module {name!r}: names are those of model.named_modules()")
    twin = replica(model, dtype, None if statistics is None else as_call(model, statistics))
    call = arguments(twin, as_call(model, sample))
    with differentiable_pass(), AdditionRecorder(twin, names) as seen:
        twin(*call.args, **call.kwargs)
    # Branches are recognized by weights in the graph; gradients of weights are not needed after that.
    for parameter in twin.parameters():
        parameter.requires_grad_(False)
    return seen


def _measured(
    branch: Branch, top: int | None, token: int | None, tolerance: float, generator: torch.Generator
) -> BlockJacobian:
    if top is not None and top < 1:
        raise ValueError(f"top is the number of singular values of every block, at least 1, got {top}")
    operator = JacobianOperator(branch, token)
    start, end = (value if token is None else value[:, token] for value in (branch.start.value, branch.result.value))
    try:
        found = spectrum(operator, top, tolerance, generator)
    except RuntimeError as error:
        raise RuntimeError(f"the Jacobian of {branch.name} could not be taken: {error}") from error
    return BlockJacobian(branch.name, branch.skip, branch.activation, operator, found, start.flatten(1), end.flatten(1))


def _chosen(found: Sequence[Branch], seen: AdditionRecorder, names: Sequence[str]) -> list[Branch]:
    """In the order of the list: the branches in a module, or the module as one."""
    chosen: list[Branch] = []
    for name in names:
        inside = [branch for branch in found if branch.name == name or branch.name.startswith(f"{name}.")]
        chosen += inside or module_branches([call for call in seen.calls if call.name == name], [name])
    return chosen


def _nothing(left_out: Mapping[str, str]) -> str:
    why = "; ".join(f"{name or '(model)'}: {reason}" for name, reason in list(left_out.items())[:3])
    seen = (
        f"{len(left_out)} modules add, but {why}"
        if left_out
        else "no module adds two tensors of one shape by + or torch.add without alpha"
    )
    return f"no residual branch was found: {seen}; take the Jacobians of modules that you name by blocks= (--blocks)"
