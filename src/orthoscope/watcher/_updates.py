"""What one step of an optimizer does to the matrices of a model: the weights before and after it, compared."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from orthoscope.linalg import singular_values
from orthoscope.linalg.matrices import whole
from orthoscope.metrics.gradients import log_norm
from orthoscope.metrics.representations import energy_rank, entropy_rank, gram_absolute_overlap
from orthoscope.metrics.updates import (
    gram_angle_change,
    leading_directions,
    spectral_unevenness,
    update_alignment,
)
from orthoscope.optim.muon.groups import layer_views
from orthoscope.optim.muon.views import MatrixView

_QUANTILES = (1.0, 0.75, 0.5, 0.25, 0.0)


@dataclass(frozen=True)
class UpdateRow:
    """The effect of an optimizer step W → W + ΔW; nan where undefined. For formulas see `metrics`."""

    step: int  # of its optimizer since the watch began, from 1
    optimizer: str
    weight: str  # the parameter's name, with [i] for the i-th of several matrices
    shape: tuple[int, int]  # (out, in)
    gradient_norm: float  # Frobenius, as the optimizer saw it
    weight_norm: float  # Frobenius, before the step
    update_norm: float  # Frobenius
    relative_size: float  # ‖ΔW‖/‖W‖, Frobenius
    relative_spectral_size: float  # ‖ΔW‖₂/‖W‖₂
    rms_operator_norm: float  # of ΔW: √(in/out) ‖ΔW‖₂
    spectrum: tuple[float, ...]  # singular values of ΔW: largest, upper quartile, median, lower quartile, smallest
    effective_rank: float  # of ΔW
    stable_rank: float  # of ΔW
    semi_orthogonality_defect: float  # of ΔW: 0 if its singular values are equal
    update_alignment: float  # cosine of ΔW and W
    left_share: float  # of the energy of ΔW in the leading tenth of W's left singular vectors
    right_share: float  # the same of the right ones
    independence: float  # PII of W's rows, before the step
    independence_change: float
    angle_change: float  # mean over pairs of rows, radians
    conformality_defect: float  # the same per relative size


@torch.no_grad()
def update_numbers(
    before: Tensor, after: Tensor, gradient: Tensor | None
) -> list[dict[str, float | tuple[float, ...]]]:
    """The measured fields of a row for every matrix of a stack `(count, out, in)`; nan if it is not finite."""
    old, new = before.double(), after.double()
    finite = (old.isfinite() & new.isfinite()).all(-1).all(-1)
    # LAPACK refuses what is not finite; the numbers of these matrices are taken out again below.
    old, new = (torch.where(finite[:, None, None], matrix, 0.0) for matrix in (old, new))
    update = new - old
    spectrum = singular_values(update)
    weight_norm, update_norm = log_norm(old).exp(), log_norm(update).exp()
    # Products of all rows are most of the work: once before and once after.
    old_gram, new_gram = old @ old.mT, new @ new.mT
    old_independence, angles = gram_absolute_overlap(old_gram), gram_angle_change(old_gram, new_gram)
    left, right, largest = _leading(update, old)
    out, fan_in = update.shape[-2:]
    measured = {
        "weight_norm": weight_norm,
        "update_norm": update_norm,
        "relative_size": update_norm / weight_norm,
        "relative_spectral_size": spectrum[..., 0] / largest,
        "rms_operator_norm": (fan_in / out) ** 0.5 * spectrum[..., 0],
        "effective_rank": entropy_rank(spectrum),
        "stable_rank": energy_rank(spectrum),
        "semi_orthogonality_defect": spectral_unevenness(spectrum),
        "update_alignment": update_alignment(update, old),
        "left_share": left,
        "right_share": right,
        "independence": old_independence,
        "independence_change": gram_absolute_overlap(new_gram) - old_independence,
        "angle_change": angles,
        "conformality_defect": angles / (update_norm / weight_norm),
    }
    names = list(measured)
    quantiles = torch.quantile(spectrum, spectrum.new_tensor(_QUANTILES), dim=-1)
    # One transfer from the device for all numbers.
    table = torch.where(finite, torch.cat([torch.stack(list(measured.values())), quantiles]), torch.nan)
    norms = torch.full_like(weight_norm, torch.nan) if gradient is None else log_norm(gradient).exp()
    return [
        {
            "gradient_norm": column[-1],
            **dict(zip(names, column[: len(names)], strict=True)),
            "spectrum": tuple(column[len(names) : -1]),
        }
        for column in torch.cat([table, norms[None]]).mT.tolist()
    ]


def _leading(update: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Energy shares of the update in the leading tenth of the weight's singular vectors, and its spectral norm."""
    left, right = leading_directions(weight, max(1, min(weight.shape[-2:]) // 10))
    energy = update.square().sum((-2, -1))
    shares = [(part.square().sum((-2, -1)) / energy) for part in (left.mT @ update, update @ right)]
    return shares[0], shares[1], singular_values(left.mT @ weight @ right)[..., 0]


@dataclass(frozen=True)
class _Began:
    """A recorded step that has begun: the matrices before it, by name, and how many rows there were."""

    weights: dict[str, tuple[nn.Parameter, MatrixView, Tensor]]
    rows: int


class WatchedUpdates:
    """Rows of all recorded steps; each optimizer counts its own steps."""

    def __init__(self, model: nn.Module, every: int, largest: int) -> None:
        self.model = model
        self.every = every
        self.largest = largest
        self.rows: list[UpdateRow] = []
        self.skipped: dict[str, str] = {}
        self._taken: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._began: weakref.WeakKeyDictionary[Optimizer, _Began] = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        """Free the copies of a step that never ended."""
        self._began.clear()

    def before(self, optimizer: Optimizer) -> None:
        if self._taken.get(optimizer, 0) % self.every == 0:
            weights = {
                name: (parameter, view, _matrices(parameter, view).clone())
                for name, parameter, view in self._watched(optimizer)
            }
            self._began[optimizer] = _Began(weights, len(self.rows))

    def after(self, optimizer: Optimizer) -> list[UpdateRow]:
        """The rows of the step that has ended; none if it was not recorded."""
        self._taken[optimizer] = self._taken.get(optimizer, 0) + 1
        began = self._began.pop(optimizer, None)
        if began is None:
            return []
        # What an optimizer inside this one has recorded is part of this step.
        self.rows[began.rows :] = [
            row for row in self.rows[began.rows :] if row.weight.partition("[")[0] not in began.weights
        ]
        kept = len(self.rows)
        for name, (parameter, view, before) in began.weights.items():
            self._record(optimizer, name, parameter, view, before)
        return self.rows[kept:]

    def _watched(self, optimizer: Optimizer) -> Iterable[tuple[str, nn.Parameter, MatrixView]]:
        """The matrices that the optimizer moves; tied ones once, under their first name."""
        moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        known, chosen = layer_views(self.model), _views_of_groups(optimizer)
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in moved or parameter.ndim < 2 or not parameter.requires_grad:
                continue
            view = chosen.get(id(parameter), known.get(name))
            reason = self._reason_to_skip(name, parameter, view)
            if reason:
                self.skipped[name] = reason
            else:
                yield name, parameter, view or MatrixView()

    def _reason_to_skip(self, name: str, parameter: nn.Parameter, view: MatrixView | None) -> str:
        if "parametrizations" in name.split("."):
            return "coordinates of a parametrized weight"
        if not parameter.is_floating_point():
            return f"numbers of type {parameter.dtype}"
        if parameter.ndim > 2 and view is None:
            return f"{parameter.ndim} dimensions, and no layer is known that multiplies by it"
        rows = _rows(parameter, view or MatrixView())
        if rows > self.largest:
            return f"{rows} rows: more than largest={self.largest}"
        return ""

    @torch.no_grad()
    def _record(
        self, optimizer: Optimizer, name: str, parameter: nn.Parameter, view: MatrixView, before: Tensor
    ) -> None:
        after = _matrices(parameter, view)
        if parameter.grad is None and torch.equal(before, after):
            return  # not reached by this loss
        gradient = None if parameter.grad is None else _matrices(parameter.grad, view)
        step, who = self._taken[optimizer], type(optimizer).__name__
        numbers = update_numbers(before, after, gradient)
        for place, measured in enumerate(numbers):
            weight = name if len(numbers) == 1 else f"{name}[{place}]"
            self.rows.append(UpdateRow(step, who, weight, (after.shape[-2], after.shape[-1]), **measured))  # type: ignore[arg-type]


def _views_of_groups(optimizer: Optimizer) -> dict[int, MatrixView]:
    """What the groups of `Muon` say of their parameters, by id."""
    return {
        id(parameter): MatrixView(*view)
        for group in optimizer.param_groups
        if group.get("use_muon") and group.get("views")
        for parameter, view in zip(group["params"], group["views"], strict=True)
    }


def _rows(parameter: Tensor, view: MatrixView) -> int:
    """How many rows are compared with one another; see `_matrices`."""
    count, rows, _ = view.shape(parameter.shape)
    return count if rows == 1 else rows


@torch.no_grad()
def _matrices(tensor: Tensor, view: MatrixView) -> Tensor:
    """The matrices `(count, out, in)` of a whole tensor, gathered if it is sharded."""
    full = whole(tensor).detach()
    matrices = view.matrices(full.to_dense() if full.is_sparse else full)
    # Depthwise filters are matrices of one row; together they are vectors that can be compared.
    return matrices.flatten(0, 1)[None] if matrices.shape[1] == 1 else matrices
