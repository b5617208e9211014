"""What every attention of a forward pass looks like, from a few of its queries: logits, entropy, masks, and the axis.

An attention is a call of `scaled_dot_product_attention` or `multi_head_attention_forward`, or a softmax whose input is
the product of two activations: a softmax of a router, of an output or of pooling weights is not. Fused kernels that
compile themselves, such as `flex_attention`, are not seen.
"""

import inspect
import math
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn import functional as F

from orthoscope.probe.samples import evenly_spaced

# Entropy relative to uniform weights above which a head is uniform, and below which one key gets nearly all the weight.
# Not the largest weight itself: keys of repeated tokens are equal and share it.
UNIFORM, ONE_HOT = 0.99, 0.1
# Masks that are added: people write -inf, the least number of the type, -1e9 or -1e4; a position bias is far above.
FORBIDDEN = -1e4

_SAMPLES, _QUERIES = 4, 64
_ELEMENTS = 1 << 21  # logits that are looked at in one attention
_PRODUCTS = {"BmmBackward0", "BaddbmmBackward0"}
_PROJECTIONS = {"AddmmBackward0", "MmBackward0", "ConvolutionBackward0"}
_NEAR = 12  # operations between a product and its softmax: scales, masks, position biases


@dataclass(frozen=True)
class AttentionCall:
    """One attention of the pass.

    Attributes:
        module: Name of the innermost module that was running.
        call: 0 for the first attention of this module in the pass.
        queries: Number of queries of a sequence.
        keys: Number of keys of a sequence.
        heads: Heads that were looked at: those of at most four samples.
        largest_logit: Largest size of a logit that the mask allows.
        entropy: Mean entropy of the weights of a query, as a share of that of uniform weights over the keys that it
            may see; nan if no query may see two.
        uniform_heads: Share of heads whose weights are nearly uniform.
        one_hot_heads: Share of heads in which one key gets nearly all the weight.
        lonely_queries: Share of queries for which the mask leaves one key or none; the first of each causal mask, which
            sees only itself, is not counted.
        normalizes_keys: Whether the weights of a query sum to one over its keys; None if it is not known.
        queries_from: Weight layer that the queries come from; empty if none was seen.
        keys_from: Weight layer that the keys come from; empty if none was seen.
    """

    module: str
    call: int
    queries: int
    keys: int
    heads: int
    largest_logit: float
    entropy: float
    uniform_heads: float
    one_hot_heads: float
    lonely_queries: float
    normalizes_keys: bool | None
    queries_from: str = ""
    keys_from: str = ""

    def __str__(self) -> str:
        size = f"{self.queries} queries, {self.keys} keys"
        return f"{self.module}: {size}, largest logit {self.largest_logit:.3g}, entropy {self.entropy:.0%} of uniform"

    __repr__ = __str__


@dataclass(frozen=True)
class Weights:
    """Numbers of the attention weights of some queries."""

    heads: int
    largest_logit: float
    entropy: float
    uniform_heads: float
    one_hot_heads: float
    lonely_queries: float


def attention_weights(
    logits: Float[Tensor, "heads queries keys"], allowed: Bool[Tensor, "heads queries keys"] | None = None
) -> Weights:
    r"""Measure the weights $p_{qk} = e^{z_{qk}} / \sum_j e^{z_{qj}}$ over the keys that each query may see.

    The entropy of a query is relative to $\ln n$, where $n \ge 2$ is the number of its keys. What is below `FORBIDDEN`
    was masked by addition.
    """
    logits = logits.float()
    seen = logits > FORBIDDEN if allowed is None else allowed & (logits > FORBIDDEN)
    keys = seen.sum(-1)
    zeroed = torch.where(seen, logits, 0.0)
    largest = float(zeroed.abs().amax()) if zeroed.numel() else 0.0
    top = torch.where(seen, logits, -math.inf).amax(-1, keepdim=True)
    weights = torch.where(seen, (logits - top.nan_to_num(neginf=0.0)).exp(), 0.0)
    total = weights.sum(-1)
    spread = (weights * (zeroed - top.nan_to_num(neginf=0.0))).sum(-1) / total
    entropy = torch.where(keys > 1, (total.log() - spread) / keys.clamp_min(2).log(), math.nan)
    of_head = entropy.nanmean(-1)
    known = of_head.isfinite()
    count = max(1, int(known.sum()))
    return Weights(
        heads=len(logits),
        largest_logit=largest,
        entropy=float(of_head.nanmean()),
        uniform_heads=int((of_head[known] > UNIFORM).sum()) / count,
        one_hot_heads=int((of_head[known] < ONE_HOT).sum()) / count,
        lonely_queries=_lonely(keys, logits.shape[-1]),
    )


def _lonely(keys: Tensor, possible: int) -> float:
    """Share of queries with at most one key where more are possible; the first such query of a head is not counted."""
    if possible < 2 or not keys.numel():
        return 0.0
    single = (keys <= 1).sum(-1)
    return float((single - 1).clamp_min(0).sum() / max(1, keys.shape[-1] - 1) / len(keys))


@dataclass
class _Seen:
    """An attention whose sources in the autograd graph are still to be named."""

    module: str
    queries: int
    keys: int
    weights: Weights
    normalizes_keys: bool | None
    sources: tuple[Node | None, Node | None]
    own: bool = False  # the module itself holds the projections


@dataclass
class AttentionObserver:
    """Collects the attentions of a pass; `handlers` says which functions it wants to see."""

    seen: list[_Seen] = field(default_factory=list)
    _normalized: deque[tuple[weakref.ref[Tensor], int, _Seen]] = field(default_factory=lambda: deque(maxlen=4))

    @property
    def handlers(self) -> dict[str, Callable[..., None]]:
        """Functions of torch by name, and what is called with the module, the arguments and the result of each."""
        products = dict.fromkeys(("matmul", "__matmul__", "bmm", "einsum"), self._product)
        return {
            "scaled_dot_product_attention": self._fused,
            "multi_head_attention_forward": self._multi_head,
            "softmax": self._softmax,
            **products,
        }

    def calls(self, source: Callable[[Node | None], str]) -> tuple[AttentionCall, ...]:
        """Return the rows; `source` names the weight layer that a place in the graph comes from."""
        counts: dict[str, int] = {}
        rows = []
        for one in self.seen:
            index = counts.get(one.module, 0)
            counts[one.module] = index + 1
            names = (one.module, one.module) if one.own else (source(one.sources[0]), source(one.sources[1]))
            rows.append(
                AttentionCall(
                    one.module, index, one.queries, one.keys, **vars(one.weights),
                    normalizes_keys=one.normalizes_keys, queries_from=names[0], keys_from=names[1],
                )
            )  # fmt: skip
        return tuple(rows)

    def _fused(self, module: str, args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False))
        given.update(options)
        query, key, mask = given["query"], given["key"], given.get("attn_mask")
        if query.ndim < 3:
            return
        shape = (*query.shape[:-1], key.shape[-2])
        picks = _picks(shape)
        some_queries, some_keys = query[picks], key[picks[:-1]]
        if query.ndim > 3 and key.shape[-3] != query.shape[-3]:  # several heads of queries share one of keys
            some_keys = some_keys.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        scale = given.get("scale")
        logits = some_queries.float() @ some_keys.float().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        allowed = None
        if isinstance(mask, Tensor):
            shown = mask.expand(shape)[picks]
            allowed, logits = (shown, logits) if shown.dtype is torch.bool else (None, logits + shown)
        elif given.get("is_causal"):
            places = torch.arange(shape[-2], device=query.device)[picks[-1]]
            allowed = (torch.arange(shape[-1], device=query.device) <= places.unsqueeze(-1)).expand(logits.shape)
        sources = (query.grad_fn, key.grad_fn)
        self._note(module, shape[-2:], _heads(logits), None if allowed is None else _heads(allowed), True, sources)

    def _multi_head(self, module: str, args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        given = _MULTI_HEAD.bind(*args, **options)
        given.apply_defaults()
        of = given.arguments
        query, key, heads = of["query"], of["key"], of["num_heads"]
        if query.ndim != 3 or of["bias_k"] is not None or of["add_zero_attn"]:
            return
        (queries, samples, width), keys = query.shape, key.shape[0]
        picks = _picks((samples, heads, queries, keys))
        weights = (of["q_proj_weight"], of["k_proj_weight"])
        if not of["use_separate_proj_weight"]:
            weights = of["in_proj_weight"].detach().split(width)[:2]
        biases = (None, None) if of["in_proj_bias"] is None else of["in_proj_bias"].detach().split(width)[:2]
        some_queries = F.linear(query.detach()[picks[-1], picks[0]], weights[0], biases[0])
        some_keys = F.linear(key.detach()[:, picks[0]], weights[1], biases[1])
        some_queries, some_keys = (
            one.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3).float() for one in (some_queries, some_keys)
        )
        logits = some_queries @ some_keys.mT * some_queries.shape[-1] ** -0.5
        shape = (samples, heads, queries, keys)
        for mask in _masks(of["attn_mask"], of["key_padding_mask"], samples, heads):
            shown = mask.expand(shape)[picks]
            logits = logits.masked_fill(shown, -math.inf) if shown.dtype is torch.bool else logits + shown
        self._note(module, (queries, keys), _heads(logits), None, True, (None, None), own=True)

    def _softmax(self, module: str, args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        scores = args[0] if args else options.get("input", options.get("self"))
        axis = options.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(scores, Tensor) or scores.ndim < 3 or not isinstance(axis, int):
            return
        sources = _factors_of(scores.grad_fn)
        if sources is None:
            return
        moved = scores.detach().movedim(axis, -1)
        logits = moved[_picks(moved.shape)]
        one = self._note(module, scores.shape[-2:], _heads(logits), None, None, sources)
        self._normalized.append((weakref.ref(result), axis % scores.ndim - scores.ndim, one))

    def _product(self, module: str, args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        """Weights are multiplied with the values: the axis over which that sums must be the one that was normalized."""
        for reference, axis, one in self._normalized:
            weights = reference()
            place = next((index for index, given in enumerate(args) if given is weights), None)
            if weights is None or place is None or one.normalizes_keys is not None:
                continue
            if isinstance(args[0], str):
                summed = _summed_axes(args[0], place - 1, weights.ndim)
                one.normalizes_keys = None if summed is None else axis in summed
            elif weights.ndim > 2:
                one.normalizes_keys = axis == (-1 if place == 0 else -2)

    def _note(
        self,
        module: str,
        size: Sequence[int],
        logits: Tensor,
        allowed: Tensor | None,
        normalizes_keys: bool | None,
        sources: tuple[Node | None, Node | None],
        own: bool = False,
    ) -> _Seen:
        measured = attention_weights(logits.detach(), allowed)
        one = _Seen(module, size[0], size[1], measured, normalizes_keys, sources, own)
        self.seen.append(one)
        return one


_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def _picks(shape: Sequence[int]) -> tuple[slice, ...]:
    """Indices of a few samples and queries of logits of this shape, at most `_ELEMENTS` of them, with all keys."""
    # Without a dimension of heads, the first one may count heads as well as samples.
    samples = min(shape[0], _SAMPLES if len(shape) > 3 else _SAMPLES**2)
    each = math.prod(shape[1:-2]) * shape[-1]
    samples = max(1, min(samples, _ELEMENTS // max(1, 4 * each)))
    queries = max(4, min(_QUERIES, _ELEMENTS // max(1, samples * each)))
    whole = [slice(None)] * (len(shape) - 3)
    return (evenly_spaced(shape[0], samples), *whole, evenly_spaced(shape[-2], queries))


def _heads(logits: Tensor) -> Tensor:
    return logits.flatten(0, -3) if logits.ndim > 3 else logits


def _masks(mask: Tensor | None, padding: Tensor | None, samples: int, heads: int) -> list[Tensor]:
    """Masks of `multi_head_attention_forward` as (samples, heads, queries, keys), to be broadcast; True forbids."""
    found = []
    if mask is not None:
        found.append(mask.unflatten(0, (samples, heads)) if mask.ndim == 3 and len(mask) > 1 else mask)
    if padding is not None:
        found.append(padding.reshape(-1, 1, 1, padding.shape[-1]))
    return found


def _factors_of(node: Node | None) -> tuple[Node | None, Node | None] | None:
    """The two activations whose product is nearby in the graph; None for any other tensor."""
    todo, seen = deque([node]), 0
    while todo and seen < _NEAR:
        here = todo.popleft()
        seen += 1
        if here is None or here.name() in _PROJECTIONS:
            continue
        parents = [parent for parent, _ in here.next_functions]
        if here.name() in _PRODUCTS:
            left, right = parents[-2:]
            return None if _is_weight(left) or _is_weight(right) else (left, right)
        todo.extend(parents)
    return None


def _is_weight(node: Node | None) -> bool:
    """Whether a factor is a parameter or a constant, perhaps transposed or repeated."""
    while node is not None:
        if node.name() == "torch::autograd::AccumulateGrad":
            return isinstance(getattr(node, "variable", None), nn.Parameter)
        parents = [parent for parent, _ in node.next_functions]
        if len(parents) != 1:
            return False
        node = parents[0]
    return True


def _summed_axes(equation: str, operand: int, ndim: int) -> set[int] | None:
    """The axes of one operand, counted from the end, over which an `einsum` sums; None if the equation is implicit."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    letters = inputs.split(",")[operand].rpartition("...")[2] if arrow else ""
    if not letters:
        return None
    return {index - len(letters) for index, letter in enumerate(letters) if letter not in output}
