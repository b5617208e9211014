"""`hf:NAME`: any architecture of transformers, at random initialization, without a download."""

import copy
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.data import gaussians, images, tokens
from orthoscope.models.targets.target import Batch, Target, TargetError, builder, close_to, parse_call
from orthoscope.models.targets.timm_zoo import required
from orthoscope.models.targets.user_code import running

PREFIX = "hf:"

# The first table that has the configuration decides the head of the network.
_HEADS = {
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING": "AutoModelForSeq2SeqLM",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING": "AutoModelForSpeechSeq2Seq",
    # Before the causal ones: BERT is in both, and warns when it is used as a decoder.
    "MODEL_FOR_MASKED_LM_MAPPING": "AutoModelForMaskedLM",
    "MODEL_FOR_CAUSAL_LM_MAPPING": "AutoModelForCausalLM",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING": "AutoModelForImageClassification",
    "MODEL_MAPPING": "AutoModel",
}
_LENGTH = 32
_IMAGE_SIZE = 224  # where a configuration has none, as for ResNets
_WAVEFORM = 16_000  # one second

Generator = torch.Generator | None


def resolve_hugging_face(text: str) -> Target:
    """The target of `hf:gpt2` or `hf:llama(hidden_size=64, num_hidden_layers=2)`."""
    name, overrides = parse_call(text.removeprefix(PREFIX))
    transformers = required("transformers", text)
    config = _configuration(text, transformers, name, overrides)
    auto_class, main_input = _head(text, transformers, config)

    def make() -> nn.Module:
        with running(text), _offline():
            # A copy, because models write into their configuration.
            model: nn.Module = auto_class.from_config(copy.deepcopy(config))
        return model

    remedy = f"override its configuration, as in hf:{name}(hidden_size=64, num_hidden_layers=2)"
    return Target(text, builder(text, make, remedy), partial(batch_for_config, text, config, main_input))


def _configuration(text: str, transformers: Any, name: str, overrides: dict[str, Any]) -> Any:
    known = list(transformers.CONFIG_MAPPING.keys())
    if name not in known:
        meant = close_to(name, known, "transformers.CONFIG_MAPPING lists them")
        raise TargetError(f"transformers has no model type {name!r} (not a repository on the hub): {meant}")
    with running(text), _offline():
        default = transformers.AutoConfig.for_model(name)
        for key in overrides:
            if not hasattr(default, key):
                meant = close_to(key, default.to_dict(), "see its documentation")
                raise TargetError(f"the configuration of {name} has no {key!r}: {meant}")
        config = transformers.AutoConfig.for_model(name, **overrides)
    # Types with several heads of one kind, such as DeiT, look their head up here, and cannot iterate over None.
    config.architectures = config.architectures or []
    if hasattr(config, "use_cache"):
        config.use_cache = False  # keys and values of earlier tokens are for generation
    return config


def _head(text: str, transformers: Any, config: Any) -> tuple[Any, str]:
    """The Auto class that builds the network, and the name of the network's main input."""
    tables = importlib.import_module("transformers.models.auto.modeling_auto")
    names = ["MODEL_MAPPING"] if _has_two_towers(config) else list(_HEADS)
    for name in names:
        table = getattr(tables, name)
        if type(config) in table:
            with running(text):
                known = table[type(config)]
                model = known[0] if isinstance(known, tuple) else known
                return getattr(transformers, _HEADS[name]), model.main_input_name
    raise TargetError(
        f"transformers builds no single network for {text!r}: "
        "write a function that does, and give it as package.module:function"
    )


def _has_two_towers(config: Any) -> bool:
    """True for CLIP and its relatives: text and images, projected to one space."""
    return all(hasattr(config, name) for name in ("text_config", "vision_config", "projection_dim"))


@contextmanager
def _offline() -> Iterator[None]:
    """Prevent downloads, also of models that would fetch a backbone or a kernel."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def batch_for_config(text: str, config: Any, main_input: str, samples: int = 64, generator: Generator = None) -> Batch:
    """The inputs, by name, that a network of this configuration needs."""
    names = [main_input, "pixel_values"] if _has_two_towers(config) else [main_input]
    if getattr(config, "is_encoder_decoder", False):
        names.append("decoder_input_ids")
    unknown = [name for name in names if name not in _INPUTS]
    if unknown:
        raise TargetError(
            f"no batch can be guessed for {text!r}, whose main input is {unknown[0]!r}: "
            "give one with --batch package.module:function"
        )
    with running(text):
        return {name: _INPUTS[name](config, samples, generator) for name in dict.fromkeys(names)}


def _token_ids(config: Any, samples: int, generator: Generator) -> Tensor:
    text = config.get_text_config()
    length = min(_LENGTH, getattr(text, "max_position_embeddings", None) or _LENGTH)
    return tokens(samples, length, text.vocab_size, generator=generator)


def _pixel_values(config: Any, samples: int, generator: Generator) -> Tensor:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or _IMAGE_SIZE
    height, width = (size, size) if isinstance(size, int) else size
    return images(samples, getattr(vision, "num_channels", 3), height, width, generator=generator)


def _spectrograms(config: Any, samples: int, generator: Generator) -> Tensor:
    # The encoder of Whisper halves the frames, and accepts only this number.
    bins, frames = config.num_mel_bins, 2 * config.max_source_positions
    return gaussians(samples, bins * frames, generator=generator).reshape(samples, bins, frames)


_INPUTS: dict[str, Callable[[Any, int, Generator], Tensor]] = {
    "input_ids": _token_ids,
    "decoder_input_ids": _token_ids,
    "pixel_values": _pixel_values,
    "input_features": _spectrograms,
    "input_values": lambda config, samples, generator: gaussians(samples, _WAVEFORM, generator=generator),
}
