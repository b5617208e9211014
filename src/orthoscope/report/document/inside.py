"""What a diagnosis found between modules: attentions, the residual stream, recurrent layers, mixtures of experts."""

from dataclasses import dataclass
from typing import Annotated

from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.parts import NOT_NEGATIVE


@dataclass(frozen=True, kw_only=True)
class Attention(Part):
    """One attention of the pass."""

    module: Annotated[str, "Module that attends."]
    call: Annotated[int, "0 for the first attention of this module in the pass.", NOT_NEGATIVE]
    queries: Annotated[int, "Queries of a sequence.", NOT_NEGATIVE]
    keys: Annotated[int, "Keys of a sequence.", NOT_NEGATIVE]
    largest_logit: Annotated[Number | None, "Largest size of a logit that the mask allows."]
    entropy: Annotated[Number | None, "Mean entropy of the weights as a share of that of uniform ones."]
    uniform_heads: Annotated[Number, "Share of heads whose weights are nearly uniform."]
    one_hot_heads: Annotated[Number, "Share of heads in which one key gets nearly all the weight."]
    lonely_queries: Annotated[Number, "Share of queries for which the mask leaves one key or none."]
    normalizes_keys: Annotated[bool | None, "Whether weights add up to 1 over the keys; null if it is not known."]
    queries_from: Annotated[str, "Weight layer that the queries come from; empty if none was seen."]
    keys_from: Annotated[str, "Weight layer that the keys come from; empty if none was seen."]


@dataclass(frozen=True, kw_only=True)
class StreamPoint(Part):
    """The residual stream after one sum."""

    name: Annotated[str, "Last weight layer of the branch that was added, or the module that adds."]
    after: Annotated[int, "Weight layers that were called before the sum.", NOT_NEGATIVE]
    gradient_norm: Annotated[Number | None, "Norm of the gradient with respect to the sum; null if none arrived."]
    rms: Annotated[Number | None, "Root mean square of the sum."]
    branch_ratio: Annotated[Number | None, "Root mean square of the branch over that of the stream it is added to."]


@dataclass(frozen=True, kw_only=True)
class OverTime(Part):
    """The gradient along the time steps of one recurrent layer."""

    module: Annotated[str, "Name of the module."]
    kind: Annotated[str, "Class of the module."]
    steps: Annotated[int, "Number of time steps.", NOT_NEGATIVE]
    growth: Annotated[Number | None, "Change of the log gradient norm from the last time step to the first."]
    growth_per_step: Annotated[Number | None, "The same per step."]
    reach: Annotated[int, "Steps, up to the last, whose gradient is a thousandth of the largest.", NOT_NEGATIVE]
    saturation: Annotated[Number | None, "Share of gates and states that are saturated; null for unbounded units."]
    log_norms: Annotated[tuple[Number | None, ...], "Log gradient norm at every step; null where it is zero."]


@dataclass(frozen=True, kw_only=True)
class Experts(Part):
    """How a router shares the tokens of the batch among its experts."""

    module: Annotated[str, "Module that holds the experts."]
    experts: Annotated[int, "Number of experts.", NOT_NEGATIVE]
    per_token: Annotated[int, "Experts that a token goes to.", NOT_NEGATIVE]
    tokens: Annotated[int, "Tokens that were routed.", NOT_NEGATIVE]
    effective: Annotated[Number, "Effective number of experts: exponential of the entropy of the load."]
    balance: Annotated[Number | None, "0 if all tokens go to the same experts, 1 if all experts get as many."]
    load: Annotated[tuple[Number, ...], "Share of the tokens that each expert got.", {"items": NOT_NEGATIVE}]
    unused: Annotated[tuple[int, ...], "Experts that got no token."]
