"""What a training is compared with: the best constant prediction, and a shallow network on the same batches.

Where the model computes its loss itself, both are taken from its logits and labels if cross entropy of these is that
loss; if it is not, or the loss cannot take a constant, the loss before training stands for guessing.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.probe.batches import TARGETS
from orthoscope.probe.losses import Loss, call_loss, cross_entropy, own_loss
from orthoscope.probe.samples import Call, mapped, tensors_in
from orthoscope.training import train

LEAST_LEARNED = 0.2  # share of guessing that counts as learned where no shallow network can be built
_WIDTH = 128
_STEPS = 10  # of LBFGS, each with a line search: a constant has few directions
_SAME = 1e-3  # relative difference of two losses that are taken for the same function


@dataclass(frozen=True)
class Comparable:
    """Calls with an output and a loss that a constant or another network can be put into.

    Attributes:
        calls: The batches of a training.
        output: What the network gives for the first of them, or its logits.
        loss: A function of such an output and the target.
    """

    calls: tuple[Call, ...]
    output: Any
    loss: Loss


def comparable(calls: Sequence[Call], output: Any, loss: Loss | None) -> Comparable | None:
    """The same task without the network; None if the loss is computed inside it in an unknown way."""
    if loss is not None or (own := own_loss(output)) is None:
        return Comparable(tuple(calls), output, lambda made, target=None: call_loss(loss, made, target))
    if isinstance(output, Tensor):
        return None
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    name = next((name for name in TARGETS if isinstance(calls[0].kwargs.get(name), Tensor)), None)
    if not isinstance(logits, Tensor) or name is None or calls[0].kwargs[name].is_floating_point():
        return None
    for function in (cross_entropy, next_token_cross_entropy):
        with contextlib.suppress(RuntimeError, ValueError, IndexError):  # of shapes that do not fit
            found = function(logits, calls[0].kwargs[name].to(logits.device))
            if math.isclose(float(found.detach()), float(own.detach()), rel_tol=_SAME):
                labeled = tuple(replace(call, target=call.kwargs[name]) for call in calls)
                return Comparable(labeled, logits.detach(), function)
    return None


def next_token_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of every token but the first, predicted from those before it, as language models take it."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


class _Constant(nn.Module):
    """A constant prediction for every tensor of an output; for sequences of any length, the same at every position."""

    def __init__(self, call: Call, output: Any) -> None:
        super().__init__()
        self.output, self.samples = output, call.samples
        inputs = _first(call)
        self.answers = nn.ParameterList()
        self.of_sequences: list[bool] = []
        for tensor in _predictions(output):
            words = tensor.ndim == 3 and inputs.ndim > 1 and inputs.shape[1] == tensor.shape[1]
            self.of_sequences.append(words)
            shape = (
                tensor.shape[-1:] if tensor.ndim == 3 else tensor.shape[1:] if self._counts(tensor) else tensor.shape
            )
            self.answers.append(nn.Parameter(torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)))

    def _counts(self, tensor: Tensor) -> bool:
        return tensor.ndim > 0 and tensor.shape[0] == self.samples

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inputs = _first(Call(args, kwargs))
        answers: Iterator[tuple[nn.Parameter, bool]] = iter(zip(self.answers, self.of_sequences, strict=True))

        def constant(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor
            answer, of_sequences = next(answers)
            if not self._counts(tensor):
                return answer.expand(tensor.shape)
            shape = (inputs.shape[1], *tensor.shape[2:]) if of_sequences else tensor.shape[1:]
            return answer.expand(len(inputs), *shape)

        return mapped(self.output, constant)


def constant_loss(task: Comparable) -> float | None:
    r"""The loss of the best constant prediction $c$; of sequences, one prediction for every token alike.

    $$ \min_c \sum_b n_b \, \text{loss}(c, y_b) \Big/ \sum_b n_b $$

    with $n_b$ the number of targets in batch $b$: for a mean over targets, that of all batches together. None if the
    loss cannot be taken of a constant.
    """
    calls, device = task.calls, next((tensor.device for tensor in tensors_in(task.output)), torch.device("cpu"))
    if not any(True for _ in _predictions(task.output)):
        return None
    constant = _Constant(calls[0], task.output)
    answers = list(constant.parameters())
    counts = [_targets(call) for call in calls]

    def over_all(_: Any, __: Any) -> Tensor:
        # One graph at a time: batches may differ in length, and those of all together need not fit into memory.
        value, slopes = torch.zeros((), device=device), [torch.zeros_like(answer) for answer in answers]
        for call, count in zip(calls, counts, strict=True):
            target = mapped(call.target, lambda tensor: tensor.to(device))
            part = task.loss(constant(*call.args, **call.kwargs), target) * (count / sum(counts))
            found = torch.autograd.grad(part, answers, allow_unused=True)
            slopes = [slope if more is None else slope + more for slope, more in zip(slopes, found, strict=True)]
            value = value.to(part) + part.detach()
        # Adds 0, and has that slope.
        return value + sum(((a - a.detach()) * slope).sum() for a, slope in zip(answers, slopes, strict=True))

    optimizer = torch.optim.LBFGS(answers, line_search_fn="strong_wolfe")
    try:
        only = replace(calls[0], target=torch.zeros(()))
        history = train(constant, lambda: [only], optimizer, steps=_STEPS, loss=over_all)
    except Exception:  # the loss is the user's, and may raise anything on an output that it did not expect
        return None
    return history.best if math.isfinite(history.best) else None


def shallow_network(calls: Sequence[Call], output: Any, seed: int) -> nn.Module | None:
    """One hidden layer of 128 units on numbers, an embedding and a linear layer on token ids; None if neither fits.

    All floating-point arguments are its input, in samples of one shape. `output` is of the first batch.
    """
    if not isinstance(output, Tensor) or output.ndim < 1 or output.shape[0] != calls[0].samples:
        return None
    numbers = [[tuple(tensor.shape[1:]) for tensor in _numbers(call)] for call in calls]
    ids = _first(calls[0])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if numbers[0]:
            if any(shapes != numbers[0] for shapes in numbers):
                return None
            return _OnNumbers(sum(map(math.prod, numbers[0])), output).to(output.device)
        if ids.ndim == 2 and output.ndim == 3 and output.shape[:2] == ids.shape:
            return _OnTokens(output.shape[2], output.dtype).to(output.device)
    return None


class _OnNumbers(nn.Module):
    def __init__(self, features: int, output: Tensor) -> None:
        super().__init__()
        self.shape = output.shape[1:]
        self.hidden = nn.Linear(features, _WIDTH, dtype=output.dtype)
        self.last = nn.Linear(_WIDTH, math.prod(self.shape), dtype=output.dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        flat = torch.cat([one.flatten(1) if one.ndim > 1 else one[:, None] for one in _numbers(Call(args, kwargs))], 1)
        made: Tensor = self.last(self.hidden(flat.to(self.hidden.weight.dtype)).relu())
        return made.reshape(len(flat), *self.shape)


class _OnTokens(nn.Module):
    def __init__(self, vocabulary: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, _WIDTH, dtype=dtype)
        self.last = nn.Linear(_WIDTH, vocabulary, dtype=dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        made: Tensor = self.last(self.embedding(_first(Call(args, kwargs)) % self.embedding.num_embeddings))
        return made


def _first(call: Call) -> Tensor:
    return next(tensors_in((call.args, call.kwargs)))


def _numbers(call: Call) -> list[Tensor]:
    """The floating-point arguments that count samples."""
    count = call.samples
    found = tensors_in((call.args, call.kwargs))
    return [one for one in found if one.is_floating_point() and one.ndim and one.shape[0] == count]


def _predictions(output: Any) -> Iterator[Tensor]:
    return (tensor for tensor in tensors_in(output) if tensor.is_floating_point())


def _targets(call: Call) -> int:
    """The number of targets of a batch, of samples if it brings none."""
    return (
        max(1, sum(tensor.numel() for tensor in tensors_in(call.target))) if call.target is not None else call.samples
    )
