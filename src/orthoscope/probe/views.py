"""How a tensor is read as samples: which dimension counts them, and what is a token."""

from jaxtyping import Float
from torch import Tensor, nn

# Layouts (samples, channels, positions): the second dimension is no sequence.
CHANNELS_FIRST = (
    nn.Conv1d,
    nn.ConvTranspose1d,
    nn.BatchNorm1d,
    nn.InstanceNorm1d,
    nn.GroupNorm,
    nn.MaxPool1d,
    nn.AvgPool1d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveMaxPool1d,
)


def sample_view(tensor: Tensor, samples: int) -> Float[Tensor, "samples units"] | None:
    """The tensor as `(samples, units)`, or None when no dimension counts the samples of the batch.

    Besides batch-first: sequence-first `(tokens, samples, units)`, and windows or heads folded into
    the first dimension, `(samples·k, ...)`.
    """
    if not tensor.is_floating_point() or tensor.ndim < 1 or tensor.numel() == 0:
        return None
    if tensor.shape[0] == samples:
        return tensor.reshape(samples, -1)
    if tensor.ndim >= 3 and tensor.shape[1] == samples:
        return tensor.transpose(0, 1).reshape(samples, -1)
    if tensor.ndim >= 2 and samples > 1 and tensor.shape[0] % samples == 0 and tensor.shape[0] > 0:
        return tensor.reshape(samples, -1)
    return None


def token_view(tensor: Tensor, samples: int) -> Float[Tensor, "samples tokens units"] | None:
    """The tensor as sequences, or None if it has none: three dimensions, samples first or second."""
    if tensor.ndim != 3:
        return None
    if tensor.shape[0] == samples and tensor.shape[1] > 1:
        return tensor
    if tensor.shape[1] == samples and tensor.shape[0] > 1:
        return tensor.transpose(0, 1)
    return None


def spread(count: int, most: int) -> slice:
    """At most `most` of `count` indices, evenly spaced and always the same ones."""
    return slice(0, None, -(-count // most)) if count > most else slice(None)


def differs_over_samples(tensor: Tensor, samples: int) -> bool:
    """Whether any sample differs from the first; a tensor without a sample dimension does not."""
    return tensor.ndim > 0 and tensor.shape[0] == samples and bool((tensor[1:] != tensor[:1]).any())
