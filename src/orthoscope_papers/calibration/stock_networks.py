"""A stock architecture by name, as people build it, with a batch of real data and the loss that it is trained by."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from orthoscope.models.targets.target import drawn_from
from orthoscope.models.targets.timm_zoo import required
from orthoscope.probe.samples import tensors_in
from orthoscope_papers.calibration import stock_inputs as real
from orthoscope_papers.calibration.shrinking import LENGTH, SPECIAL, VOCABULARY, tiny

CLASSES = 10
MASKED = 0.15  # share of the tokens that a masked language model has to restore
FRAMES, BINS = 64, 80
IGNORED = -100  # a target that does not count, as in torch

# Tables of transformers in the order in which they decide the head of a type; what builds it, and its task.
HEADS = {
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING": ("AutoModelForSeq2SeqLM", "next token"),
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING": ("AutoModelForSpeechSeq2Seq", "next token"),
    "MODEL_FOR_MASKED_LM_MAPPING": ("AutoModelForMaskedLM", "masked tokens"),
    "MODEL_FOR_CAUSAL_LM_MAPPING": ("AutoModelForCausalLM", "next token"),
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING": ("AutoModelForImageClassification", "classes"),
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING": ("AutoModelForAudioClassification", "classes"),
    "MODEL_FOR_CTC_MAPPING": ("AutoModelForCTC", "classes"),
    "MODEL_MAPPING": ("AutoModel", "random direction"),
}

Arguments = dict[str, Tensor]
Loss = Callable[[Any, Tensor], Tensor]


class NotCoveredError(ValueError):
    """No network or no batch can be made by the rules; the message is the reason."""


@dataclass(frozen=True)
class Stock:
    """A network at its own initialization and its data.

    Attributes:
        model: The network.
        arguments: What it is called with, by name; every tensor has one row a sample.
        targets: What its loss compares the output with; None without a loss.
        loss: Of the output and the targets; None: a random direction is differentiated.
        task: The loss in words.
    """

    model: nn.Module
    arguments: Arguments
    targets: Tensor | None
    loss: Loss | None
    task: str

    def batch(self) -> Any:
        """What `diagnose` gets: keyword arguments, or the tensor alone where timm names it in different ways."""
        return self.arguments["x"] if self.positional else dict(self.arguments)

    def call(self, arguments: Arguments) -> Any:
        """The output of the network."""
        return self.model(arguments["x"]) if self.positional else self.model(**arguments)

    @property
    def positional(self) -> bool:
        """Whether the only argument has no name."""
        return self.arguments.keys() == {"x"}

    def loss_of(self, output: Any) -> Tensor:
        """The loss on all samples."""
        assert self.loss is not None
        assert self.targets is not None
        return self.loss(output, self.targets)


def timm_network(name: str, size: int, resizable: bool, dataset: str, samples: int, seed: int = 0) -> Stock:
    """Build an architecture of timm for images of `size` pixels and ten classes.

    Args:
        name: Of the architecture.
        size: Height and width of an image.
        resizable: Whether the architecture is told the size.
        dataset: Where images come from.
        samples: How many images.
        seed: Of the weights.
    """
    timm = required("timm", f"timm:{name}")
    more = {"img_size": size} if resizable else {}
    with quiet(), drawn_from(torch.Generator().manual_seed(seed)):
        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **more)
    with torch.device("cpu"):
        images = real.photographs(dataset, samples, 3, size, size)
    return Stock(model, {"x": images}, real.classes(dataset, samples), class_loss, "classes")


def hugging_face_network(name: str, dataset: str, samples: int, seed: int = 0) -> Stock:
    """Build a model type of transformers from its tiny configuration, with the first head of `HEADS` that it has."""
    make, task = from_tiny_configuration(name)
    with quiet(), drawn_from(torch.Generator().manual_seed(seed)):
        model: Any = make()
    arguments = _arguments(model, model.config, dataset, samples)
    return _with_loss(model, model.config, arguments, task, dataset, samples)


def from_tiny_configuration(name: str) -> tuple[Callable[[], nn.Module], str]:
    """What builds the network of a model type, and the task of its head."""
    config = tiny(name)
    config.num_labels = CLASSES
    config.architectures = []  # types with several heads of one kind look their head up here, and fail on None
    tables, transformers = import_module("transformers.models.auto.modeling_auto"), import_module("transformers")
    for table, (builder, task) in HEADS.items():
        if type(config) in getattr(tables, table):
            return partial(getattr(transformers, builder).from_config, config), task
    raise NotCoveredError("it has no head for text, images or sound, nor a base model")


@contextmanager
def quiet() -> Iterator[None]:
    """Third parties warn at construction: that is theirs. Nothing is downloaded."""
    constants: Any = import_module("huggingface_hub.constants")
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _arguments(model: Any, config: Any, dataset: str, samples: int) -> Arguments:
    parameters = inspect.signature(model.forward).parameters
    made = _makers(config, dataset, samples)
    names = [model.main_input_name]
    names += [name for name in made if name in parameters and parameters[name].default is inspect.Parameter.empty]
    if getattr(config, "is_encoder_decoder", False):
        names.append("decoder_input_ids")
    if _has_two_towers(config) and {"input_ids", "pixel_values"} <= parameters.keys():
        names = ["input_ids", "pixel_values"]
    unknown = [name for name in names if name not in made]
    if unknown:
        raise NotCoveredError(f"its input {unknown[0]!r} is neither text, image nor sound")
    return {name: made[name]() for name in dict.fromkeys(names)}


def _has_two_towers(config: Any) -> bool:
    """True for CLIP and its relatives: text and images, projected to one space."""
    return all(hasattr(config, name) for name in ("text_config", "vision_config", "projection_dim"))


def _makers(config: Any, dataset: str, samples: int) -> Mapping[str, Callable[[], Tensor]]:
    return {
        "input_ids": lambda: _text(config, samples),
        "decoder_input_ids": lambda: _text(config, samples),
        "pixel_values": lambda: _images(config, dataset, samples),
        "input_values": lambda: _sound(config, dataset, samples),
        "input_features": lambda: _features(config, dataset, samples),
    }


def _text(config: Any, samples: int) -> Tensor:
    own = config.get_text_config(decoder=False)
    vocabulary = getattr(own, "vocab_size", None) or VOCABULARY
    length = min(LENGTH, getattr(own, "max_position_embeddings", None) or LENGTH)
    return real.text(samples, length, vocabulary, SPECIAL if vocabulary >= VOCABULARY else 0)


def _images(config: Any, dataset: str, samples: int) -> Tensor:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or 64
    height, width = (size, size) if isinstance(size, int) else size
    return real.photographs(dataset, samples, getattr(vision, "num_channels", 3) or 3, height, width)


def _sound(config: Any, dataset: str, samples: int) -> Tensor:
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):  # a spectrogram, cut into patches
        return real.spectrograms(dataset, samples, config.num_mel_bins, config.max_length).transpose(1, 2).contiguous()
    return real.waveforms(dataset, samples)


def _features(config: Any, dataset: str, samples: int) -> Tensor:
    """Spectrograms as Whisper takes them, frequencies first, of a fixed length; else one row a frame."""
    if hasattr(config, "max_source_positions") and not hasattr(config, "input_feat_per_channel"):
        return real.spectrograms(dataset, samples, config.num_mel_bins, 2 * config.max_source_positions)
    inner = getattr(config, "encoder_config", config)
    names = ("feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins", "input_dim")
    bins = next((found for name in names if (found := getattr(inner, name, None))), BINS)
    return real.spectrograms(dataset, samples, bins, FRAMES).transpose(1, 2).contiguous()


def _with_loss(model: nn.Module, config: Any, arguments: Arguments, task: str, dataset: str, samples: int) -> Stock:
    ids = arguments.get("decoder_input_ids", arguments.get("input_ids"))
    if task == "next token" and ids is not None:
        return Stock(model, arguments, ids, next_token_loss, task)
    if task == "masked tokens" and ids is not None:
        generator = torch.Generator().manual_seed(0)
        masked = torch.rand(ids.shape, generator=generator) < MASKED
        mask = getattr(config, "mask_token_id", None)
        hidden = torch.where(
            masked, (getattr(config, "vocab_size", None) or VOCABULARY) - 1 if mask is None else mask, ids
        )
        targets = torch.where(masked, ids, IGNORED)
        return Stock(model, {**arguments, "input_ids": hidden}, targets, token_loss, task)
    if {"input_ids", "pixel_values"} <= arguments.keys():
        return Stock(model, arguments, torch.arange(samples), pairs_loss, "pairs")
    if task == "classes":
        return Stock(model, arguments, real.classes(dataset, samples), class_loss, task)
    return Stock(model, arguments, None, None, "random direction")


def logits(output: Any) -> Tensor:
    """The logits of an output: by that name, or its first floating-point tensor."""
    named = getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return named
    return next(tensor for tensor in tensors_in(output) if tensor.is_floating_point())


def class_loss(output: Any, targets: Tensor) -> Tensor:
    """Cross entropy of classes; logits of several places, such as frames of a sound, are averaged."""
    scores = logits(output)
    while scores.ndim > 2:
        scores = scores.mean(1)
    return cross_entropy(scores, targets)


def pairs_loss(output: Any, targets: Tensor) -> Tensor:
    """Cross entropy of the text that belongs to an image, among those of the batch."""
    return cross_entropy(output.logits_per_image, targets)


def token_loss(output: Any, targets: Tensor) -> Tensor:
    """Cross entropy of the tokens that were masked."""
    scores = logits(output)
    return cross_entropy(scores.flatten(0, -2), targets.flatten(), ignore_index=IGNORED)


def next_token_loss(output: Any, targets: Tensor) -> Tensor:
    """Cross entropy of the following token."""
    scores = logits(output)[:, : targets.shape[1]]
    return cross_entropy(scores[:, :-1].flatten(0, -2), targets[:, 1:].flatten())
