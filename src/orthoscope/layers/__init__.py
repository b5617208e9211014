"""Layers whose weights are orthogonal, by construction or nearly so by a penalty; activations that are shaped."""

from orthoscope.layers.blended_activation import BlendedActivation
from orthoscope.layers.centred_activation import CentredActivation
from orthoscope.layers.charts import CHARTS, Chart
from orthoscope.layers.convolution import orthogonal_convolution
from orthoscope.layers.low_rank import LowRankUpdate, low_rank_update
from orthoscope.layers.orthogonal import orthogonal
from orthoscope.layers.orthogonality_penalty import OrthogonalityPenalty
from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.penalties import double_sided_orthogonality, mutual_coherence, soft_orthogonality, srip
from orthoscope.layers.shaped_activation import ShapedActivation

__all__ = [
    "CHARTS",
    "BlendedActivation",
    "CentredActivation",
    "Chart",
    "LowRankUpdate",
    "OrthogonalParametrization",
    "OrthogonalityPenalty",
    "ShapedActivation",
    "double_sided_orthogonality",
    "low_rank_update",
    "mutual_coherence",
    "orthogonal",
    "orthogonal_convolution",
    "soft_orthogonality",
    "srip",
]
