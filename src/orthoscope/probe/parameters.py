"""The parameters of a model after one backward pass: which are trainable, and which get a gradient, how large."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from orthoscope.probe.hooks import Observer, observable_modules, owned_parameters

# A vector of this root mean square or less multiplies to nothing: LayerScale starts at 1e-6 to 1e-4.
_TINY = 2e-4
_NOT_FLOATING = "integers, as quantized weights are: not trained, and not looked at"


@dataclass(frozen=True)
class ParameterRow:
    """One parameter tensor.

    Attributes:
        name: Name in the model.
        shape: Shape of the tensor.
        trainable: Whether it requires a gradient.
        weight_norm: Frobenius norm.
        gradient_norm: Frobenius norm of the gradient; None if none arrived.
        gradient_sum: Sum of the absolute values of the gradient; None if it is not known.
        opened_norm: Norm of the gradient after one step of the zero-initialized gates; None if not looked at.
    """

    name: str
    shape: tuple[int, ...]
    trainable: bool
    weight_norm: float
    gradient_norm: float | None = None
    gradient_sum: float | None = None
    opened_norm: float | None = None

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)

    @property
    def is_bias(self) -> bool:
        """Whether it is added, to judge by its name."""
        return self.name.endswith("bias")

    @property
    def is_gate(self) -> bool:
        """Whether it multiplies by nothing: a weight that is zero, or a vector that is tiny, as in LayerScale."""
        if self.is_bias or not self.size:
            return False
        vector = self.size == max(self.shape, default=1)
        return self.weight_norm <= (_TINY * self.size**0.5 if vector else 0.0)

    @property
    def gets_gradient(self) -> bool:
        """Whether it is trainable and its gradient is not zero, now or after the first step of the gates."""
        return self.trainable and ((self.gradient_norm or 0.0) != 0 or (self.opened_norm or 0.0) != 0)


@dataclass(frozen=True)
class ParameterTable:
    """All parameters of a model, each once.

    Attributes:
        rows: One row per parameter tensor of real or complex numbers.
        owners: By module name, the rows of its own parameters; a shared parameter belongs to several modules.
        skipped: By name of the parameter, why it has no row.
    """

    rows: tuple[ParameterRow, ...] = ()
    owners: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def of(self, module: str) -> tuple[ParameterRow, ...]:
        """The rows of the module's own parameters."""
        return tuple(self.rows[index] for index in self.owners.get(module, ()))

    @property
    def trainable(self) -> int:
        """Number of scalars that are trainable."""
        return sum(row.size for row in self.rows if row.trainable)

    @property
    def connected(self) -> int:
        """Number of trainable scalars that are connected with what was differentiated."""
        return sum(row.size for row in self.rows if row.trainable and row.gradient_norm is not None)

    @property
    def live_gates(self) -> tuple[ParameterRow, ...]:
        """Zero or tiny multipliers that are trainable and get a gradient: the first step opens them."""
        return tuple(row for row in self.rows if row.is_gate and row.gets_gradient)

    @property
    def relative_gradients(self) -> dict[str, float]:
        r"""$\|g\|/\|W\|$ of every trainable matrix that has both."""
        return {
            row.name: row.gradient_norm / row.weight_norm
            for row in self.rows
            if row.trainable and row.gradient_norm is not None and row.weight_norm > 0 and len(row.shape) >= 2
        }

    def first_decrease(self, optimizer: str | None) -> float | None:
        r"""First-order decrease of the loss by the first step, per unit of learning rate.

        $\|g\|_2^2$ for "sgd"; $\|g\|_1$ for "adamw", whose first step is the sign of the gradient; None for "muon",
        whose step needs the singular values of the gradients, and where a gradient is not known.
        """
        rows = [row for row in self.rows if row.trainable and row.gradient_norm is not None]
        if optimizer == "sgd":
            return sum(((row.gradient_norm or 0.0) ** 2 for row in rows), start=0.0)
        sums = [row.gradient_sum for row in rows]
        known = [number for number in sums if number is not None]
        return sum(known, start=0.0) if optimizer == "adamw" and len(known) == len(sums) else None

    def opened(self, norms: Mapping[str, float]) -> "ParameterTable":
        """The same with the norms of gradients, by name, after the first step of the gates."""
        return replace(self, rows=tuple(replace(row, opened_norm=norms.get(row.name)) for row in self.rows))


def parameter_table(model: nn.Module, observer: Observer) -> ParameterTable:
    """Read the parameters after a backward pass whose gradients the observer has collected."""
    floating = floating_parameters(model)
    values = [parameter for _, parameter in floating]
    weight_norms = observer.samples.weight_norms(values)
    rows = tuple(
        ParameterRow(
            name=name,
            shape=tuple(parameter.shape),
            trainable=parameter.requires_grad,
            weight_norm=weight_norm,
            gradient_norm=observer.weight_gradients.get(id(parameter)),
            gradient_sum=observer.gradient_sums.get(id(parameter)),
        )
        for (name, parameter), weight_norm in zip(floating, weight_norms, strict=True)
    )
    index = {id(parameter): position for position, parameter in enumerate(values)}
    owners = {
        name: tuple(index[id(parameter)] for parameter in owned_parameters(module) if id(parameter) in index)
        for name, module in observable_modules(model)
    }
    skipped = {_plain(name): _NOT_FLOATING for name, p in model.named_parameters() if not _is_real(p)}
    return ParameterTable(rows, {name: found for name, found in owners.items() if found}, skipped)


def floating_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The parameters of the rows, in their order, by name without the parts of compiled wrappers."""
    return [(_plain(name), parameter) for name, parameter in model.named_parameters() if _is_real(parameter)]


def _is_real(parameter: Tensor) -> bool:
    return parameter.is_floating_point() or parameter.is_complex()


def _plain(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != "_orig_mod")
