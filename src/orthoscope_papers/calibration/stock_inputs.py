"""Real inputs for stock architectures: photographs, text, and sounds that are made of the photographs.

Images are of CIFAR-10 (the embedded digits in the quick setting), resized to what a network takes. Text is the manual
that Python carries, a character a token. There is no recorded sound in the datasets: a spectrogram is an image whose
rows are frequencies, and a waveform is that image played, one sinusoid a row, its loudness along the row.
"""

import math
from functools import cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import interpolate

from orthoscope.data.dataset import python_manual
from orthoscope_papers.image_sets import load

WAVEFORM, SAMPLE_RATE = 6400, 16_000
_LOWEST, _HIGHEST = 80.0, 6000.0  # hertz
_FIRST = 4  # ids below are special in nearly every vocabulary: padding, beginning, end, unknown
_CHARACTERS = 128


@cache
def labeled_images(dataset: str, samples: int) -> tuple[Float[Tensor, "n c h w"], Int64[Tensor, " n"]]:
    """Return images with mean 0 and variance 1 over all pixels, and their classes."""
    data = load(dataset, "train")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:samples]
    pixels = data.pixels[order].float()
    return (pixels - pixels.mean()) / pixels.std(), data.labels[order]


def photographs(dataset: str, samples: int, channels: int, height: int, width: int) -> Float[Tensor, "n c h w"]:
    """Return images of that size; one channel is their mean, several are repeated."""
    images, _ = labeled_images(dataset, samples)
    resized = interpolate(images, (height, width), mode="bilinear", antialias=True)
    if channels == 1:
        return resized.mean(1, keepdim=True)
    return resized.repeat(1, math.ceil(channels / resized.shape[1]), 1, 1)[:, :channels].contiguous()


def classes(dataset: str, samples: int) -> Int64[Tensor, " n"]:
    """Return the classes of `photographs`, and of the sounds made of them."""
    return labeled_images(dataset, samples)[1]


def spectrograms(dataset: str, samples: int, bins: int, frames: int) -> Float[Tensor, "n bins frames"]:
    """Return one channel of the images, a row for every frequency."""
    return photographs(dataset, samples, 1, bins, frames).squeeze(1)


def waveforms(dataset: str, samples: int, length: int = WAVEFORM, voices: int = 32) -> Float[Tensor, "n time"]:
    """Return the images played: sinusoids at equal musical intervals, as loud as the pixels of their row are bright."""
    generator = torch.Generator().manual_seed(0)
    loudness = spectrograms(dataset, samples, voices, length).sigmoid()
    pitch = torch.logspace(math.log10(_LOWEST), math.log10(_HIGHEST), voices).unsqueeze(-1)
    phase = 2 * math.pi * torch.rand(voices, 1, generator=generator)
    sound = (loudness * torch.sin(2 * math.pi * pitch * torch.arange(length) / SAMPLE_RATE + phase)).sum(1)
    return (sound - sound.mean()) / sound.std()


def text(samples: int, length: int, vocabulary: int, reserved: int) -> Int64[Tensor, "n length"]:
    """Return passages of Python's manual, evenly spaced; a character is an id above the special ones.

    Args:
        samples: Number of passages.
        length: Characters of each.
        vocabulary: Ids that the network knows.
        reserved: The last ids of the vocabulary, which are special too.
    """
    manual = python_manual("train")
    starts = torch.arange(samples) * ((len(manual) - length) // samples)
    characters = manual[starts.unsqueeze(-1) + torch.arange(length)]
    first = min(_FIRST, vocabulary // 4)
    return first + characters % max(1, min(_CHARACTERS, vocabulary - first - reserved))
