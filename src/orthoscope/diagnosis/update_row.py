"""What one step of an optimizer did to one matrix, in numbers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from orthoscope.linalg import singular_values
from orthoscope.metrics.gradients import log_norm
from orthoscope.metrics.gram import absolute_overlap
from orthoscope.metrics.spectral import energy_rank, entropy_rank
from orthoscope.metrics.updates import (
    gram_angle_change,
    leading_directions,
    spectral_unevenness,
    update_alignment,
)

_QUANTILES = (1.0, 0.75, 0.5, 0.25, 0.0)


@dataclass(frozen=True)
class UpdateRow:
    """A step W → W + ΔW; nan where a number is undefined. The formulas are those of `metrics` under the same names."""

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
    old_independence, angles = absolute_overlap(old_gram), gram_angle_change(old_gram, new_gram)
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
        "independence_change": absolute_overlap(new_gram) - old_independence,
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
