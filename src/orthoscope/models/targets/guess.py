"""A batch for a network that came without one, guessed from the network itself."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import nn

from orthoscope.data import gaussians, images, tokens
from orthoscope.models.targets.hugging_face import batch_for_config
from orthoscope.models.targets.target import Batch, BatchSource, TargetError

_IMAGE_SIZE = 32
_LENGTH = 32


def batch_for(text: str, model: nn.Module) -> BatchSource:
    """By what timm and transformers say about their models, else by the first layer with weights."""
    config = getattr(model, "config", None)
    if hasattr(config, "model_type") and hasattr(model, "main_input_name"):
        return partial(batch_for_config, text, config, str(model.main_input_name))
    settings = getattr(model, "pretrained_cfg", None)
    if isinstance(settings, Mapping) and "input_size" in settings:
        return partial(_images, *settings["input_size"])
    return _for_first_layer(text, model)


def _for_first_layer(text: str, model: nn.Module) -> BatchSource:
    leaves = (m for m in model.modules() if next(m.children(), None) is None)
    first = next((m for m in leaves if next(m.parameters(), None) is not None), None)
    if isinstance(first, nn.Linear):
        return partial(_vectors, first.in_features)
    if isinstance(first, nn.Conv2d):
        return partial(_images, first.in_channels, _IMAGE_SIZE, _IMAGE_SIZE)
    if isinstance(first, nn.Embedding):
        return partial(_tokens, _LENGTH, first.num_embeddings)
    seen = "it has no layer with weights" if first is None else f"its first layer is a {type(first).__name__}"
    raise TargetError(
        f"no batch can be guessed for {text!r} ({seen}, not a Linear, Conv2d or Embedding): "
        "give one with --batch package.module:function"
    )


def _vectors(units: int, samples: int = 64, generator: torch.Generator | None = None) -> Batch:
    return gaussians(samples, units, generator=generator)


def _images(
    channels: int, height: int, width: int, samples: int = 64, generator: torch.Generator | None = None
) -> Batch:
    return images(samples, channels, height, width, generator=generator)


def _tokens(length: int, vocabulary: int, samples: int = 64, generator: torch.Generator | None = None) -> Batch:
    return tokens(samples, length, vocabulary, generator=generator)
