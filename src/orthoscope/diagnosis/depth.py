"""Which outputs lie along the depth of a network: all of a plain one, the residual stream of one with skips.

Inside a branch gradients and ranks may be small by design, and the skip keeps what a branch loses. A recurrent layer is
one place of this depth, whatever its steps; its own depth is time.
"""

from orthoscope.probe import Layer, Recording
from orthoscope.probe.trunk import FEWEST, TrunkPoint


def gradient_points(recording: Recording) -> tuple[tuple[Layer | TrunkPoint, ...], tuple[float, ...]]:
    """Return the places whose gradients are compared, input to output, and the weight layers before each.

    The weight layers; with a residual stream, those outside of its branches, and the stream after every sum.
    """
    recurrent = {profile.module for profile in recording.time}
    layers = [layer for layer in recording.layers if layer.depth is not None and layer.name not in recurrent]
    if recording.trunk is None:
        return tuple(layers), tuple(float(index) for index in range(len(layers)))
    placed: list[tuple[float, Layer | TrunkPoint]] = [
        (float(layer.depth or 0), layer) for layer in layers if not layer.branch
    ]
    placed += [(float(point.after), point) for point in recording.trunk.points]
    placed.sort(key=lambda pair: pair[0])
    return tuple(point for _, point in placed), tuple(place for place, _ in placed)


def representations_along(recording: Recording) -> tuple[Layer, ...]:
    """Return the rows whose ranks and angles are compared: without those inside residual branches.

    Where sums are written into one large `forward`, hardly a module returns the stream itself; then all rows.
    """
    outside = tuple(layer for layer in recording.layers if not layer.branch)
    compared = [layer for layer in outside if layer.sample_view is not None]
    return outside if len(compared) >= FEWEST else recording.layers


def first_tokens(recording: Recording) -> Layer | None:
    """Return the first representation that has tokens, to which later ones are compared; None without tokens."""
    return next((layer for layer in recording.layers if layer.token_view is not None), None)


def recurrent_from(recording: Recording) -> int:
    """Return the index of the first row of a recurrent layer, or the number of rows.

    From there on tokens are states that follow each other, alike by design; over time they are judged by themselves.
    """
    recurrent = {profile.module for profile in recording.time}
    return next((layer.index for layer in recording.layers if layer.name in recurrent), len(recording.layers))
