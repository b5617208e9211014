"""The normalisations of `orthoscope.models`, without ε, for stacks of batches, and their derivatives."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Hidden = Float[Tensor, "*batch samples units"]

_EPS = torch.finfo(torch.float64).eps
# Rounding of a mean, in shares of the largest one of the batch: up to 10 eps were measured, of identical samples in
# batches of 3 to 3000, widths 16 to 512 and up to 1000 inputs.
_ROUNDING = 32 * _EPS


@dataclass(frozen=True)
class Normalisation:
    r"""Divides by the root mean square along an axis, after subtracting the mean along it if `centred`.

    $$ y = r\,(x - m), \qquad r = 1\big/\sqrt{\operatorname{mean}\,(x - m)^2}, \qquad
       m = \operatorname{mean}\,x \text{ if centred, else } 0 $$

    What is 0 all along the axis (a unit that is dead on the whole batch) stays 0: there $r = 0$. So does what is
    constant along it, if centred: there $x - m$ is rounding, which `_count_rounding_as_zero_` finds.
    """

    axis: int  # -2: over the batch, each unit by itself; -1: over the units, each sample by itself
    centred: bool

    def __call__(
        self, inputs: Hidden, out: Hidden | None = None, scratch: Hidden | None = None
    ) -> tuple[Hidden, Tensor]:
        """The normalised batch, in `out`, and the factors $r$. Both arguments are memory of the shape of the inputs."""
        mean = inputs.mean(self.axis, keepdim=True) if self.centred else None
        deviations = inputs if mean is None else inputs - mean
        power = torch.square(deviations, out=scratch).mean(self.axis, keepdim=True)
        if mean is not None:
            self._count_rounding_as_zero_(power, mean)
        factors = power.rsqrt_().nan_to_num_(nan=torch.nan, posinf=0.0)
        return torch.mul(deviations, factors, out=out), factors

    def _count_rounding_as_zero_(self, power: Tensor, mean: Tensor) -> None:
        r"""$p = 0$ where $p \le \min(\varepsilon m^2, (32\varepsilon)^2\max m^2)$, the largest of the whole batch.

        Beside its own mean alone rounding may be large: a unit to which the terms of a product cancel has the rounding
        of the others. Beside the largest alone so may be what is no rounding: units may be of very different sizes.
        """
        # Nearly always there is none, as two small operations tell; an accelerator would have to wait for the answer.
        if power.is_cpu and torch.addcmul(power, mean, mean, value=-2 * _EPS).amin().item() > 0:
            return
        squares = mean.square()
        largest = squares.amax(-1 if self.axis == -2 else -2, keepdim=True)
        limit = torch.minimum(squares.mul_(_EPS), largest.mul_(_ROUNDING**2))
        power.masked_fill_(power <= limit, 0.0)

    def pull_back(
        self,
        gradient: Hidden,
        outputs: Float[Tensor, "*#batch samples units"],
        factors: Tensor,
        out: Hidden | None = None,
    ) -> Hidden:
        r"""For $x$, from $g$ for $y$: $r\,(g - y\,\overline{gy} - \bar g)$, into `out`; $\bar g$ if centred."""
        shared = torch.mul(gradient, outputs, out=out).mean(self.axis, keepdim=True)
        along = torch.addcmul(gradient, outputs, shared, value=-1, out=out)
        if self.centred:
            along -= gradient.mean(self.axis, keepdim=True)
        return along.mul_(factors)


NORMS: dict[str, Normalisation | None] = {
    "none": None,
    "rms": Normalisation(-1, centred=False),
    "layer": Normalisation(-1, centred=True),
    "batch": Normalisation(-2, centred=True),
    "batch_uncentred": Normalisation(-2, centred=False),
}


def normalisation(name: str) -> Normalisation | None:
    """By name; the hyphen of `orthoscope.models` is welcome too."""
    found = name.replace("-", "_")
    if found not in NORMS:
        raise ValueError(f"unknown normalisation {name!r}: choose one of {', '.join(NORMS)}")
    return NORMS[found]
