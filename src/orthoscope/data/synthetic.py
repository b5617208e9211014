"""Synthetic samples with known statistics."""

import math

import torch
from jaxtyping import Float32, Int64
from torch import Tensor


def gaussians(
    samples: int, units: int, overlap: float = 0.0, generator: torch.Generator | None = None
) -> Float32[Tensor, "samples units"]:
    r"""Draw standard-normal samples whose pairwise cosine is `overlap` $=\rho$ in expectation.

    $$ x_i = \sqrt\rho\, c + \sqrt{1-\rho}\, z_i, \qquad c, z_i \sim \mathcal N(0, I) $$

    The realized cosine of a pair fluctuates around $\rho$ by about $(1-\rho^2)/\sqrt{\text{units}}$.

    Args:
        samples: Number of samples.
        units: Entries of a sample.
        overlap: $\rho$, from 0, below 1.
        generator: Source of random numbers; None for torch's global one.
    """
    _require_positive(samples=samples, units=units)
    if not 0 <= overlap < 1:
        raise ValueError(f"overlap is {overlap}, but a cosine shared by all pairs must be in [0, 1)")
    normal = torch.randn(samples + 1, units, generator=generator, device=_device_of(generator))
    own, shared = normal[:-1], normal[-1]
    return math.sqrt(overlap) * shared + math.sqrt(1 - overlap) * own


def images(
    samples: int, channels: int, height: int, width: int, generator: torch.Generator | None = None
) -> Float32[Tensor, "samples channels height width"]:
    r"""Draw Gaussian random fields with the power spectrum of natural images, $P(f) \propto 1/f^2$.

    $$ x = \mathcal F^{-1}\big[\mathcal F[z] / f\big], \qquad z \sim \mathcal N(0, I),\quad
       f = \max\big(|(f_y, f_x)|, 1/\max(\text{height}, \text{width})\big) $$

    Global average pooling maps white noise to nearly the same vector for all samples; low frequencies survive it. The
    lower bound of $f$ gives every image a mean of its own. The mean square over the whole set is 1; channels are
    independent.

    Args:
        samples: Number of images.
        channels: Channels of an image.
        height: Pixels.
        width: Pixels.
        generator: Source of random numbers; None for torch's global one.
    """
    _require_positive(samples=samples, channels=channels, height=height, width=width)
    device = _device_of(generator)
    noise = torch.randn(samples, channels, height, width, generator=generator, device=device)
    vertical = torch.fft.fftfreq(height, device=device).unsqueeze(-1)
    horizontal = torch.fft.rfftfreq(width, device=device)
    frequency = torch.hypot(vertical, horizontal).clamp_min(1 / max(height, width))
    fields: Tensor = torch.fft.irfft2(torch.fft.rfft2(noise) / frequency, s=(height, width))
    return fields / fields.square().mean().sqrt()


def tokens(
    samples: int, length: int, vocabulary: int, generator: torch.Generator | None = None
) -> Int64[Tensor, "samples tokens"]:
    """Draw sequences of token ids, uniform from 0 to `vocabulary` - 1.

    Args:
        samples: Number of sequences.
        length: Tokens of a sequence.
        vocabulary: Number of different tokens.
        generator: Source of random numbers; None for torch's global one.
    """
    _require_positive(samples=samples, length=length, vocabulary=vocabulary)
    return torch.randint(vocabulary, (samples, length), generator=generator, device=_device_of(generator))


def _device_of(generator: torch.Generator | None) -> torch.device | None:
    return generator.device if generator is not None else None


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}, but must be at least 1")
