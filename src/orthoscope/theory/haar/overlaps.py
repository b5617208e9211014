"""How much random directions overlap."""

import math

from orthoscope.theory.sources import source


@source("lu2024", "PII of a weight at its start", assumes="weight vectors independent and uniform in direction")
def random_parameter_independence(dimension: int) -> float:
    r"""Mean $|\cos|$ of two random vectors of $m$ entries: $\Gamma(m/2) / (\sqrt\pi\,\Gamma((m+1)/2))$.

    About $\sqrt{2/(\pi m)}$; 1 in one dimension, $2/\pi$ in two. `metrics.parameter_independence` measures it.
    """
    if dimension < 1:
        raise ValueError(f"a vector has at least one entry, got dimension {dimension}")
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)
