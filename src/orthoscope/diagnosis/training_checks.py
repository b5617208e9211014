"""Checks of what can learn at all: trainable parameters, a path from them to the loss, and layers that are dead."""

from collections.abc import Iterator, Sequence

from orthoscope.diagnosis.checks import CheckValue, NotChecked
from orthoscope.probe import Layer, Recording, Status
from orthoscope.probe.gates import is_live_zero

NO_PARAMETERS = "the network has no parameters"
_EQUAL = 1e-12  # energy around the mean, relative to all energy, below which samples are equal to float32


def trainable_parameters(recording: Recording) -> CheckValue:
    """1 if no parameter is trainable, 0 if one is."""
    table = recording.parameter_table
    if not table.rows and not table.skipped:
        raise NotChecked(NO_PARAMETERS)
    first = next((layer.name for layer in recording.layers if table.of(layer.name)), None)
    return CheckValue(float(not table.trainable), lambda limit: first)


def gradient_path(recording: Recording) -> CheckValue:
    """1 if no trainable parameter is connected with what is differentiated, 0 if one is.

    Begins at the last module whose output has a path; the cause is the next one, if it was observed.
    """
    table = recording.parameter_table
    if not table.trainable:
        raise NotChecked("no parameter is trainable")
    last, after = _path_end(recording.layers)
    if last is None:
        where = "the forward pass runs without autograd (torch.no_grad or inference mode)"
    else:
        where = f"the path ends after {last.name or 'the whole network'} (detach, argmax, numpy, or no_grad)"
    cause = after.name if after is not None and after.name else None if last is None else last.name
    begins = after if last is None else last
    return CheckValue(
        float(not table.connected),
        lambda limit: None if begins is None else begins.name,
        words={"where": where},
        cause=cause,
    )


def _path_end(layers: Sequence[Layer]) -> tuple[Layer | None, Layer | None]:
    """The last module call whose output requires a gradient, and the one after it."""
    connected = [index for index, layer in enumerate(layers) if layer.differentiable]
    if not connected:
        return None, next((layer for layer in layers if layer.trainable), None)
    after = connected[-1] + 1
    return layers[connected[-1]], layers[after] if after < len(layers) else None


def dead_trunk(recording: Recording) -> CheckValue:
    """Number of module outputs that are exactly zero, with nothing that bypasses them; see `dead_branches`."""
    dead = [] if _output_varies(recording) else list(_dead(recording))
    # A zero that is frozen is why others get no gradient.
    frozen = [layer for layer in dead if layer.depth is not None and not layer.trainable]
    first = next(iter([*frozen, *dead]), None)
    return CheckValue(float(len(dead)), lambda limit: None if first is None else first.name)


def dead_branches(recording: Recording) -> CheckValue:
    """Share of the trainable weight layers that a skip bypasses and whose weights get a gradient that is exactly zero.

    Layers behind a zero-initialized gate are not among them, nor those before the first that has a gradient: that is a
    vanished gradient.
    """
    weighted = [layer for layer in recording.layers if layer.depth is not None and layer.trainable]
    if not any(layer.weight_gradient_norm for layer in weighted):
        raise NotChecked("no weight layer has a gradient")
    if not _output_varies(recording):
        raise NotChecked("nothing bypasses the layers that are dead")
    dead = silent_layers(recording)
    first = next(iter(dead), None) or next(iter(_dead(recording)), None)
    return CheckValue(len(dead) / len(weighted), lambda limit: None if first is None else first.name)


def silent_layers(recording: Recording) -> list[Layer]:
    """The layers that `dead_branches` counts; none if the output does not depend on the samples."""
    weighted = [layer for layer in recording.layers if layer.depth is not None and layer.trainable]
    if not _output_varies(recording):
        return []
    alive = next((index for index, layer in enumerate(weighted) if layer.gradient_norm), len(weighted))
    return [
        layer
        for layer in weighted[alive:]
        if layer.weight_gradient_norm == 0 and layer.name not in recording.behind_gates
        if not is_live_zero(layer, recording.parameter_table)
    ]


def bypassed_layers(recording: Recording) -> list[Layer]:
    """Module calls that give exactly zero for every sample, for ever, while the output still depends on the samples."""
    return list(_dead(recording)) if _output_varies(recording) else []


def _dead(recording: Recording) -> Iterator[Layer]:
    """Outputs that are exactly zero: of no zero weight, or of one that is frozen or gets no gradient."""
    for position, layer in enumerate(recording.layers):
        dead = layer.status is Status.DEAD and not _passes_on_a_live_zero(position, recording)
        if dead or (layer.status is Status.ZERO_BY_DESIGN and is_closed(layer, recording)):
            yield layer


def _passes_on_a_live_zero(position: int, recording: Recording) -> bool:
    """Whether the zero of a container is that of a part of it, from a gate that opens with the first step."""
    layer, before = recording.layers[position], reversed(recording.layers[:position])
    inside = f"{layer.name}." if layer.name else ""
    last = next((one for one in before if one.name.startswith(inside)), None)
    return last is not None and is_live_zero(last, recording.parameter_table)


def is_closed(layer: Layer, recording: Recording) -> bool:
    """Whether a layer multiplies by a zero that no step will change: frozen, or without a gradient."""
    zero = [row for row in recording.parameter_table.of(layer.name) if row.is_gate and row.weight_norm == 0]
    return bool(zero) and layer.name not in recording.unused and not any(row.gets_gradient for row in zero)


def _output_varies(recording: Recording) -> bool:
    """Whether the last output depends on the samples; of one sample, whether the first weight layer has a gradient."""
    if recording.samples < 2:
        return any(layer.gradient_norm for layer in recording.layers if layer.depth == 1)
    last = recording.layers[-1] if recording.layers else None
    if last is None or last.sample_view is None:
        head = next((layer for layer in reversed(recording.layers) if layer.depth is not None), None)
        return head is not None and is_live_zero(head, recording.parameter_table)
    return 1 - last.mean_energy > _EQUAL
