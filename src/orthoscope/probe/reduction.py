"""From stacked sample frames to representations: every layer's metrics in a few batched calls."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import gram_singular_values, over_cores
from orthoscope.metrics import gram
from orthoscope.metrics.representations import frame_isometry_gap
from orthoscope.metrics.spectral import counted_rank, energy_rank, entropy_rank
from orthoscope.probe.layer import Representation


def representations(frames: list[Float[Tensor, "_ _"]]) -> list[Representation | None]:
    """Metrics of each frame (square, of any size), None where it is zero, not finite, or a single sample.

    Frames of one size are stacked: one eigenvalue call for a hundred layers instead of a hundred.
    """
    results: list[Representation | None] = [None] * len(frames)
    by_size: dict[int, list[int]] = {}
    for index, frame in enumerate(frames):
        if frame.shape[0] > 1 and 0 < float(frame.abs().sum()) < torch.inf:
            by_size.setdefault(frame.shape[0], []).append(index)
    for indices in by_size.values():
        rows = over_cores(_metrics, torch.stack([frames[i] for i in indices])).tolist()
        for index, row in zip(indices, rows, strict=True):
            results[index] = Representation(*row)
    return results


def _metrics(stack: Float[Tensor, "layers samples samples"]) -> Float[Tensor, "layers metrics"]:
    """The fields of `Representation`, in their order."""
    samples = stack.shape[-1]
    # Scale out first: a frame of tiny activations is as good as any other, its squares are not.
    stack = stack / stack.abs().amax((-2, -1), keepdim=True)
    inner = stack @ stack.mT
    # Centred before the product: subtracting afterwards cancels when samples are nearly equal.
    around_mean = stack - stack.mean(-2, keepdim=True)
    centred = around_mean @ around_mean.mT
    spectrum, centred_spectrum = gram_singular_values(torch.stack([inner, centred]))
    columns = {
        "gap": gram.gap(inner),
        "isometry_gap": frame_isometry_gap(stack),
        "effective_rank": entropy_rank(spectrum),
        "stable_rank": energy_rank(spectrum),
        "numerical_rank": counted_rank(spectrum, samples, torch.float32),
        "overlap": gram.overlap(inner),
        "mean_energy": gram.mean_share(inner),
        "centred_gap": gram.centred_gap(centred),
        "centred_effective_rank": entropy_rank(centred_spectrum),
        "centred_overlap": gram.overlap(centred),
    }
    return torch.stack([columns[name] for name in Representation.__dataclass_fields__], dim=-1)


def mean_representation(rows: list[Representation | None]) -> Representation | None:
    """Average over sequences, those without a value left out."""
    present = [list(vars(row).values()) for row in rows if row is not None]
    return Representation(*torch.tensor(present, dtype=torch.float64).nanmean(0).tolist()) if present else None
