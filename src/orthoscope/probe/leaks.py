"""Whether a causal model sees later tokens, and whether samples see each other, by forward passes on changed inputs.

Reading masks finds no such error reliably; changing what must not matter, and looking whether it does, finds it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.probe.batches import as_call
from orthoscope.probe.hooks import unwrapped
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import Call, copied, mapped, tensors_in

_CAUSAL_CLASSES = ("ForCausalLM", "LMHeadModel")


@dataclass(frozen=True)
class Leaks:
    """What outputs change by when only what they must not depend on changes.

    Attributes:
        later_tokens: Largest change of an output before the tokens that changed, relative to the largest output; None
            if it was not tried.
        other_samples: Largest change of an output of samples that did not change; None if it was not tried.
        tolerance: Changes up to it are rounding.
        skipped: Why something was not tried, one sentence each.
    """

    later_tokens: float | None
    other_samples: float | None
    tolerance: float
    skipped: tuple[str, ...] = ()

    @property
    def found(self) -> tuple[str, ...]:
        """What leaks, one sentence each; empty if nothing does."""
        sentences = []
        if self.later_tokens is not None and not self.later_tokens <= self.tolerance:
            sentences.append(
                f"later tokens leak: changing them changes earlier outputs by {self.later_tokens:.2g} of the largest "
                "output; check the causal mask and the shift of the targets"
            )
        if self.other_samples is not None and not self.other_samples <= self.tolerance:
            sentences.append(
                f"samples leak: changing some changes the outputs of others by {self.other_samples:.2g} of the largest "
                "output; check operations over the batch dimension"
            )
        return tuple(sentences)

    def __str__(self) -> str:
        return "\n".join([*(self.found or ("no leak was found",)), *self.skipped])

    __repr__ = __str__


@torch.no_grad()
def leaks(model: nn.Module, batch: Any, *, causal: bool | None = None, seed: int = 0) -> Leaks:
    """Try whether later tokens change earlier outputs, and whether samples change each other's.

    Three forward passes in eval mode: one on the batch, one with the second half of its tokens changed, one with the
    second half of its samples changed. Batch norm uses its running statistics: that it mixes samples in training is its
    purpose. The model is left bit-identical.

    Args:
        model: Any module with an output per token or per sample.
        batch: What the model is called with; a target that comes with it is ignored.
        causal: Whether an output may only depend on tokens up to its own; None: if the configuration or the name of the
            class says that it is a causal language model.
        seed: Of the changes, and of models that draw noise.

    Returns:
        What was found.

    Raises:
        ValueError: If the batch cannot be used.

    Example:
        >>> orthoscope.probe.leaks(torch.nn.Linear(8, 8), torch.randn(4, 8)).found
        ()
    """
    inner = unwrapped(model)
    call = as_call(inner, batch)
    device = next((t.device for t in [*inner.parameters(), *inner.buffers()]), torch.device("cpu"))
    tokens = _token_count(call)

    def output(changed: Call) -> Tensor | None:
        torch.manual_seed(seed)
        args, kwargs = copied((changed.args, dict(changed.kwargs)), device)
        found = next((t for t in tensors_in(inner(*args, **kwargs)) if t.is_floating_point() and t.ndim > 0), None)
        return None if found is None else found.detach()

    with untouched(inner), probing_mode(inner, False):
        before = output(call)
        if before is None:
            raise ValueError("the output holds no floating-point tensor: give a model whose output can be compared")
        later, why_tokens = _later_tokens(inner, call, before, tokens, causal, output, seed)
        others, why_samples = _other_samples(call, before, output, seed)
    tolerance = torch.finfo(before.dtype).eps ** 0.75
    return Leaks(later, others, tolerance, tuple(why for why in (why_tokens, why_samples) if why))


def _later_tokens(
    model: nn.Module,
    call: Call,
    before: Tensor,
    tokens: int,
    causal: bool | None,
    output: Callable[[Call], Tensor | None],
    seed: int,
) -> tuple[float | None, str]:
    if not (_says_causal(model) if causal is None else causal):
        return None, "later tokens: skipped, the model is not known to be causal (say causal=True if it is)"
    if tokens < 2 or before.ndim < 2 or before.shape[:2] != (call.samples, tokens):
        return None, "later tokens: skipped, the model has no output for every token of a sequence"
    cut = tokens // 2
    changed = _changed(call, lambda t: t.ndim > 1 and t.shape[:2] == (call.samples, tokens), (slice(None), cut), seed)
    after = None if changed is None else output(changed)
    if after is None or after.shape != before.shape:
        return None, "later tokens: skipped, tokens could not be changed without changing the shape of the output"
    return _relative_change(before, after, before[:, :cut], after[:, :cut]), ""


def _other_samples(
    call: Call, before: Tensor, output: Callable[[Call], Tensor | None], seed: int
) -> tuple[float | None, str]:
    if call.samples < 2 or before.shape[0] != call.samples:
        return None, "other samples: skipped, it needs two samples and an output for each"
    half = call.samples // 2
    changed = _changed(call, lambda t: t.ndim > 0 and t.shape[0] == call.samples, (half,), seed)
    after = None if changed is None else output(changed)
    if after is None or after.shape != before.shape:
        return None, "other samples: skipped, samples could not be changed without changing the shape of the output"
    return _relative_change(before, after, before[:half], after[:half]), ""


def _changed(call: Call, counts: Callable[[Tensor], bool], place: tuple[Any, ...], seed: int) -> Call | None:
    """The call with the second part of what carries content changed; None if nothing could be.

    Token ids become others of those that occur; a tensor of two values is a mask and stays, so that what a model may
    see is the same in both passes.
    """
    generator = torch.Generator().manual_seed(seed)
    where = (*place[:-1], slice(place[-1], None))
    any_changed = False

    def change(tensor: Tensor) -> Tensor:
        nonlocal any_changed
        if not counts(tensor) or tensor.dtype is torch.bool:
            return tensor
        fresh = tensor.clone()
        if tensor.is_floating_point():
            noise = torch.randn(fresh[where].shape, generator=generator)
            fresh[where] = (noise * float(tensor.float().std(correction=0) or 1.0)).to(tensor)
        elif not tensor.is_complex():
            ids = tensor.unique()
            if len(ids) < 3:
                return tensor
            places = torch.searchsorted(ids, fresh[where].contiguous())
            fresh[where] = ids[(places + 1) % len(ids)]
        any_changed = True
        return fresh

    args, kwargs = mapped((tuple(call.args), dict(call.kwargs)), change)
    return Call(args, kwargs) if any_changed else None


def _relative_change(before: Tensor, after: Tensor, kept: Tensor, seen: Tensor) -> float:
    largest = float(before.double().abs().amax())
    change = float((kept.double() - seen.double()).abs().amax())
    return change / largest if largest > 0 else (0.0 if change == 0 else math.inf)


def _token_count(call: Call) -> int:
    """Size of the second dimension of the first tensor that has one."""
    return next((tensor.shape[1] for tensor in _batched(call)), 0)


def _batched(call: Call) -> Iterator[Tensor]:
    return (t for t in tensors_in((call.args, call.kwargs)) if t.ndim > 1 and t.shape[0] == call.samples)


def _says_causal(model: nn.Module) -> bool:
    decoder = getattr(getattr(model, "config", None), "is_decoder", False) is True
    return decoder or any(word in type(model).__name__ for word in _CAUSAL_CLASSES)
