"""From what the hooks left behind to rows: statuses, depths and metrics."""

from collections.abc import Sequence
from itertools import count

import torch
from torch import Tensor

from orthoscope.probe.batches import Call, tensors_in
from orthoscope.probe.layer import Layer, Representation, Status
from orthoscope.probe.names import owned_parameters
from orthoscope.probe.observed import Observed
from orthoscope.probe.observer import Observer
from orthoscope.probe.pictures import Picture, pictures
from orthoscope.probe.reduction import mean_representation, representations
from orthoscope.probe.sharded import class_name
from orthoscope.probe.views import read

# Energy around the mean, relative to all, below which float32 rows are the same row.
_IDENTICAL = 1e-13


def layers_of(observer: Observer, with_pictures: bool = False) -> list[Layer]:
    """Rows in the order the modules were called."""
    observed = observer.observed
    samples_view = representations([entry.frame for entry in observed])
    statuses = _statuses(observed, samples_view)
    tokens_view = _token_views(observed)
    drawn = _pictures(observed) if with_pictures else [None] * len(observed)
    depth = count(1)
    rows = []
    for index, entry in enumerate(observed):
        measured = statuses[index] is Status.MEASURED
        rows.append(
            Layer(
                index=index,
                name=entry.name,
                call=entry.call,
                kind=class_name(entry.module),
                depth=next(depth) if entry.weighted else None,
                shape=entry.shape,
                samples=entry.frame.shape[0],
                units=entry.units,
                status=statuses[index],
                rms=float(entry.frame.norm()) / (entry.frame.shape[0] * entry.units) ** 0.5,
                sample_view=samples_view[index] if measured else None,
                token_view=tokens_view[index] if measured else None,
                gradient_norm=entry.gradient,
                weight_gradient_norm=_weight_gradient(observer, entry),
                also=tuple(entry.also),
                trainable=any(parameter.requires_grad for parameter in owned_parameters(entry.module)),
                tokens=0 if entry.token_frames is None else entry.token_frames.shape[1],
                picture=drawn[index] if measured else None,
            )
        )
    return rows


def input_layer(call: Call, observer: Observer) -> Layer:
    """The batch itself as a row, so that a degenerate input is not blamed on the network."""
    tensor = next(tensors_in((call.args, call.kwargs)))
    # Token ids are names, not magnitudes: all that can be asked of them is whether they differ.
    values = tensor.detach().double() if not tensor.is_complex() else torch.view_as_real(tensor.detach()).double()
    reading = read(values, observer.part, "the batch")
    assert reading is not None, "the batch counts its own samples"
    frame = observer.frame(reading).cpu()
    view = representations([frame])[0]
    finite = bool(frame.isfinite().all())
    return Layer(
        index=-1,
        name="input",
        call=0,
        kind=str(tensor.dtype).removeprefix("torch."),
        depth=None,
        shape=reading.shape[: tensor.ndim],  # without the two parts of complex numbers
        samples=frame.shape[0],
        units=reading.units,
        status=Status.MEASURED if finite else Status.NOT_FINITE,
        rms=float(frame.norm()) / (frame.shape[0] * reading.units) ** 0.5,
        sample_view=view,
        token_view=None,
        gradient_norm=None,
        weight_gradient_norm=None,
    )


def _pictures(observed: Sequence[Observed]) -> list[Picture | None]:
    return pictures([entry.frame for entry in observed], [entry.weighted for entry in observed])


def _statuses(observed: Sequence[Observed], views: Sequence[Representation | None]) -> list[Status]:
    """What each output is. Order matters: a zero or a constant is inherited from the call that made it."""
    statuses: list[Status] = []
    samples_were_lost = False
    for entry, view in zip(observed, views, strict=True):
        status = _status(entry, view, samples_were_lost)
        identical = view is not None and 1 - view.mean_energy < _IDENTICAL
        if identical and status is Status.MEASURED:
            samples_were_lost = True
        statuses.append(status)
    return statuses


def _status(entry: Observed, view: Representation | None, samples_were_lost: bool) -> Status:
    if not entry.finite or not bool(entry.frame.isfinite().all()):
        return Status.NOT_FINITE
    if not bool(entry.frame.any()):
        return Status.ZERO_BY_DESIGN if entry.zero_weight or entry.input_is_zero else Status.DEAD
    identical = view is not None and 1 - view.mean_energy < _IDENTICAL
    if identical and entry.zero_weight:
        return Status.ZERO_BY_DESIGN  # nothing of the input gets through, only a bias
    # Equal rows out of equal rows: an embedding of positions, unless a layer before made them equal.
    if identical and entry.input_is_constant and not samples_were_lost:
        return Status.CONSTANT
    return Status.MEASURED


def _token_views(observed: Sequence[Observed]) -> list[Representation | None]:
    """Within-sequence metrics, averaged over the sequences looked at."""
    frames: list[Tensor] = []
    owners: list[int] = []
    for index, entry in enumerate(observed):
        if entry.token_frames is not None:
            frames.extend(entry.token_frames)
            owners.extend([index] * len(entry.token_frames))
    grouped: list[list[Representation | None]] = [[] for _ in observed]
    for owner, view in zip(owners, representations(frames), strict=True):
        grouped[owner].append(view)
    return [mean_representation(views) for views in grouped]


def _weight_gradient(observer: Observer, entry: Observed) -> float | None:
    """Norm over the module's matrices of the gradient of the weights; None where none was asked for or none came."""
    norms = [
        observer.weight_gradients[id(parameter)]
        for parameter in owned_parameters(entry.module)
        if parameter.ndim >= 2 and id(parameter) in observer.weight_gradients
    ]
    return sum(norm**2 for norm in norms) ** 0.5 if norms else None
