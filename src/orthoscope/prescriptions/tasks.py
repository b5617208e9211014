"""What a network is trained on when its owner gives no data: embedded digits or text, made to fit its batch."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.data import load
from orthoscope.data.python_manual import python_manual
from orthoscope.linalg import haar
from orthoscope.probe.batches import as_call, tensors_in
from orthoscope.probe.restoration import probing_mode, untouched

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
        raise ValueError("no embedded data fits a network with several inputs: give a loader of (inputs, targets)")
    (example,) = tensors
    outputs = _output_shape(model, call)
    if example.is_floating_point():
        if outputs is None or len(outputs) != 2 or outputs[1] < _CLASSES:
            raise ValueError(
                f"the embedded digits have {_CLASSES} classes and the network gives {_words(outputs)}: "
                "give a loader of (inputs, targets)"
            )
        return _digits(example)
    if outputs is None or len(outputs) != 3:
        raise ValueError(
            f"embedded text wants a prediction for every token and the network gives {_words(outputs)}: "
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
