"""What is trained on: the batches of the user in any form, or digits or text made to fit the network."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.data import load
from orthoscope.data.dataset import python_manual
from orthoscope.linalg import haar
from orthoscope.probe.batches import as_call, calls_of, is_one_batch
from orthoscope.probe.losses import Loss, own_loss, takes_target
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import Call, divisible, mapped, tensors_in
from orthoscope.training import pieces

_CLASSES = 10
_SEQUENCES = 512


BATCH_SIZE = 64  # of the batches that one large one is cut into
Epoch = Callable[[], Iterable[Call]]


@dataclass(frozen=True)
class Task:
    """Batches to train on.

    Attributes:
        start: Returns the epochs of one run: every run gets the same batches in the same order.
        calls: The batches of a run, one for each step.
        source: Where they come from, in words.
    """

    start: Callable[[], Epoch]
    calls: tuple[Call, ...]
    source: str


def training_task(model: nn.Module, batches: Any, batch: Any, loss: Loss | None, steps: int, seed: int) -> Task:
    """The user's `batches`; or the one `batch`, if it brings what a loss needs; or embedded data that fits it."""
    with_target = loss is None or takes_target(loss)
    if batches is None and batch is None:
        raise ValueError(
            "there is no training data: give batches of (inputs, targets), or batch= for embedded data that fits it"
        )
    if batches is None and not is_one_batch(batch):
        batches, batch = batch, None
    if batches is None:
        call = as_call(model, batch, with_target)
        if loss is None and call.target is None and own_loss(example_output(model, call)) is None:
            found = fitting_examples(model, call)
            return _of_one(Call((found.inputs,), target=found.targets), steps, seed, found.source)
        return _of_one(call, steps, seed, "your batch")
    if is_one_batch(batches):
        return _of_one(as_call(model, batches, with_target), steps, seed, "your data")
    with torch.random.fork_rng():
        # At most one batch per step: a loader may be infinite, or not fit into memory.
        calls = tuple(islice(calls_of(model, batches, with_target), steps))
    if not calls:
        raise ValueError("the data is empty: give at least one batch of (inputs, targets)")
    return Task(lambda: lambda: iter(calls), calls, "your data")


def _of_one(call: Call, steps: int, seed: int, source: str) -> Task:
    """Batches of 64 samples, shuffled, of one large batch; of a smaller one, or of a graph, the whole at every step."""

    def start() -> Epoch:
        if call.samples <= BATCH_SIZE or not divisible(call):
            return lambda: [call]
        return pieces(call, BATCH_SIZE, torch.Generator().manual_seed(seed))

    epoch = start()
    first = tuple(islice((one for _ in range(steps) for one in epoch()), steps))
    return Task(start, first, source)


def example_output(model: nn.Module, call: Call) -> Any:
    """What the network returns for a call, part of the autograd graph; the network is left unchanged."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    args, kwargs = mapped((tuple(call.args), dict(call.kwargs)), lambda tensor: tensor.to(device))
    with untouched(model), probing_mode(model, batch_statistics=True), torch.enable_grad():
        return model(*args, **kwargs)


@dataclass(frozen=True)
class Examples:
    """Inputs, targets, and where they come from in words."""

    inputs: Tensor
    targets: Tensor
    source: str


def fitting_examples(model: nn.Module, batch: Any) -> Examples:
    """Digits for a network of vectors or images with ten outputs or more, text for one of token ids.

    Digits are resized to the images of `batch`, or turned into vectors of as many features by a random isometry (a
    projection, if there are fewer), with mean 0 and variance 1.
    """
    call = as_call(model, batch)
    tensors = list(tensors_in((call.args, dict(call.kwargs))))
    if len(tensors) != 1 or call.kwargs:
        raise ValueError(
            "the network has several inputs, which no embedded data fits: give batches of (inputs, targets), and a loss"
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


def _output_shape(model: nn.Module, call: Call) -> tuple[int, ...] | None:
    output = example_output(model, call)
    return tuple(output.shape) if isinstance(output, Tensor) else None


def _digits(example: Tensor) -> Examples:
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
    return Examples(inputs.to(example.dtype).contiguous(), digits.labels, "the embedded digits")


def _text(example: Tensor, vocabulary: int) -> Examples:
    characters = python_manual("train")
    length = example.shape[1]
    if int(characters.max()) >= vocabulary:
        raise ValueError(
            f"embedded text has {int(characters.max()) + 1} characters and the network {vocabulary} tokens: "
            "give a loader of (inputs, targets)"
        )
    rows = characters[: _SEQUENCES * (length + 1)].unfold(0, length + 1, length + 1)
    return Examples(rows[:, :-1].contiguous(), rows[:, 1:].contiguous(), "text of the Python manual")
