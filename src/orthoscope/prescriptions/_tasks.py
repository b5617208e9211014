"""Training tasks for a confirmation without user data: digits or text made to fit the batch, and their baselines.

A training is compared with the best constant prediction and with a shallow network on the same data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.data import load
from orthoscope.data.dataset import python_manual
from orthoscope.linalg import haar
from orthoscope.probe.batches import as_call
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import tensors_in
from orthoscope.training import Loss, train

_CLASSES = 10
_SEQUENCES = 512


@dataclass(frozen=True)
class Task:
    """Inputs, targets, and where they come from in words."""

    inputs: Tensor
    targets: Tensor
    source: str


def fitting_task(model: nn.Module, batch: Any) -> Task:
    """Digits for a network of vectors or images with ten outputs or more, text for one of token ids.

    Digits are resized to the images of `batch`, or turned into vectors of as many features by a random isometry (a
    projection, if there are fewer), with mean 0 and variance 1.
    """
    call = as_call(model, batch)
    tensors = list(tensors_in((call.args, dict(call.kwargs))))
    if len(tensors) != 1 or call.kwargs:
        raise ValueError(
            "the network has several inputs, which no embedded data fits: give a loader of (inputs, targets)"
        )
    (example,) = tensors
    outputs = _output_shape(model, call)
    if example.is_floating_point():
        if outputs is None or len(outputs) != 2 or outputs[1] < _CLASSES:
            raise ValueError(
                f"the embedded digits have {_CLASSES} classes and the network returns {_words(outputs)}: "
                "give a loader of (inputs, targets)"
            )
        return _digits(example)
    if outputs is None or len(outputs) != 3:
        raise ValueError(
            f"embedded text needs a prediction for every token and the network returns {_words(outputs)}: "
            "give a loader of (inputs, targets)"
        )
    return _text(example, outputs[2])


def _words(shape: tuple[int, ...] | None) -> str:
    return "no tensor" if shape is None else "an output of shape " + "×".join(map(str, shape))


def _output_shape(model: nn.Module, call: Any) -> tuple[int, ...] | None:
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        output = model(*(argument.to(device) for argument in call.args))
    return tuple(output.shape) if isinstance(output, Tensor) else None


def _digits(example: Tensor) -> Task:
    digits = load("digits", "train")
    images = (digits.inputs - digits.inputs.mean()) / digits.inputs.std()
    shape = example.shape[1:]
    if len(shape) == 3:
        inputs = F.interpolate(images, size=tuple(shape[1:]), mode="bilinear").expand(-1, shape[0], -1, -1)
    else:
        flat, features = images.flatten(1), shape.numel()
        if features != flat.shape[1]:
            frame = haar(features, flat.shape[1], generator=torch.Generator().manual_seed(0), dtype=flat.dtype)
            flat = flat @ frame.mT
            flat = flat / flat.std()
        inputs = flat.reshape(-1, *shape)
    return Task(inputs.to(example.dtype).contiguous(), digits.labels, "the embedded digits")


def _text(example: Tensor, vocabulary: int) -> Task:
    characters = python_manual("train")
    length = example.shape[1]
    if int(characters.max()) >= vocabulary:
        raise ValueError(
            f"embedded text has {int(characters.max()) + 1} characters and the network {vocabulary} tokens: "
            "give a loader of (inputs, targets)"
        )
    pieces = characters[: _SEQUENCES * (length + 1)].unfold(0, length + 1, length + 1)
    return Task(pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous(), "text of the Python manual")


_WIDTH = 128
_STEPS = 10  # of LBFGS, each with a line search: a constant has few directions


class _Constant(nn.Module):
    """A constant prediction; for sequences of any length, the same at every position."""

    def __init__(self, inputs: Tensor, output: Tensor) -> None:
        super().__init__()
        self.shape = output.shape[1:]
        self.any_length = output.ndim == 3 and inputs.shape[1] == output.shape[1]
        answer = output.shape[-1:] if output.ndim == 3 else self.shape
        self.answer = nn.Parameter(torch.zeros(answer, dtype=output.dtype, device=output.device))

    def forward(self, inputs: Tensor) -> Tensor:
        shape = (inputs.shape[1], *self.shape[1:]) if self.any_length else self.shape
        return self.answer.expand(len(inputs), *shape)


def constant_loss(batches: Sequence[tuple[Tensor, Tensor]], output: Tensor, loss: Loss) -> float:
    r"""The loss of the best constant prediction $c$; of sequences, one prediction for every token alike.

    $$ \min_c \sum_b n_b \, \text{loss}(c, y_b) \Big/ \sum_b n_b $$

    with $n_b$ the number of targets in batch $b$: for a mean over targets, that of all batches together. `output` is
    what the network gives for the first batch.
    """
    constant = _Constant(batches[0][0], output)
    entries = sum(targets.numel() for _, targets in batches)

    def over_all(_: Tensor, __: Tensor) -> Tensor:
        # One graph at a time: batches may differ in length, and those of all together need not fit into memory.
        value, slope = torch.zeros(()), torch.zeros_like(constant.answer)
        for inputs, targets in batches:
            part = loss(constant(inputs), targets.to(output.device)) * (targets.numel() / entries)
            slope += torch.autograd.grad(part, constant.answer)[0]
            value = value.to(part) + part.detach()
        return value + ((constant.answer - constant.answer.detach()) * slope).sum()  # adds 0, and has that slope

    optimizer = torch.optim.LBFGS(constant.parameters(), line_search_fn="strong_wolfe")
    history = train(constant, lambda: batches[:1], optimizer, steps=_STEPS, loss=over_all)
    return history.best


def shallow_network(batches: Sequence[Tensor], output: Tensor, seed: int) -> nn.Module | None:
    """One hidden layer of 128 units on numbers, an embedding and a linear layer on token ids; None if neither fits.

    `batches` are inputs; numbers must come in samples of one shape. `output` is of the first batch.
    """
    inputs = batches[0]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if inputs.is_floating_point():
            if any(one.shape[1:] != inputs.shape[1:] for one in batches):
                return None
            features, outputs = math.prod(inputs.shape[1:]), math.prod(output.shape[1:])
            return nn.Sequential(
                nn.Flatten(),
                nn.Linear(features, _WIDTH, dtype=inputs.dtype),
                nn.ReLU(),
                nn.Linear(_WIDTH, outputs, dtype=inputs.dtype),
                nn.Unflatten(1, output.shape[1:]),
            ).to(output.device)
        if inputs.ndim == 2 and output.ndim == 3 and output.shape[:2] == inputs.shape:
            return nn.Sequential(nn.Embedding(output.shape[2], _WIDTH), nn.Linear(_WIDTH, output.shape[2])).to(
                output.device
            )
    return None
