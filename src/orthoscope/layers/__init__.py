"""Layers whose weights are orthogonal, by construction or approximately by a penalty."""

from orthoscope.layers.charts import CHARTS, Chart
from orthoscope.layers.convolution import orthogonal_convolution
from orthoscope.layers.low_rank import LowRankUpdate, low_rank_update
from orthoscope.layers.orthogonal import orthogonal
from orthoscope.layers.orthogonality_penalty import OrthogonalityPenalty
from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.penalties import double_sided_orthogonality, mutual_coherence, soft_orthogonality, srip

__all__ = [
    "CHARTS", "Chart", "LowRankUpdate", "OrthogonalParametrization", "OrthogonalityPenalty",
    "double_sided_orthogonality", "low_rank_update", "mutual_coherence", "orthogonal", "orthogonal_convolution",
    "soft_orthogonality", "srip",
]  # fmt: skip
