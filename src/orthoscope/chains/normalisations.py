"""The normalisations of `orthoscope.models`, without ε, for stacks of batches, and their derivatives."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Hidden = Float[Tensor, "*batch samples units"]


@dataclass(frozen=True)
class Normalisation:
    r"""Divides by the root mean square along an axis, after subtracting the mean along it if `centred`.

    $$ y = r\,(x - m), \qquad r = 1\big/\sqrt{\operatorname{mean}\,(x - m)^2}, \qquad
       m = \operatorname{mean}\,x \text{ if centred, else } 0 $$

    What is 0 all along the axis (a unit that is dead on the whole batch) stays 0: there $r = 0$.
    """

    axis: int  # -2: over the batch, each unit by itself; -1: over the units, each sample by itself
    centred: bool

    def __call__(
        self, inputs: Hidden, out: Hidden | None = None, scratch: Hidden | None = None
    ) -> tuple[Hidden, Tensor]:
        """The normalised batch, in `out`, and the factors $r$. Both arguments are memory of the shape of the inputs."""
        deviations = inputs - inputs.mean(self.axis, keepdim=True) if self.centred else inputs
        power = torch.square(deviations, out=scratch).mean(self.axis, keepdim=True)
        factors = power.rsqrt_().nan_to_num_(nan=torch.nan, posinf=0.0)
        return torch.mul(deviations, factors, out=out), factors

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
