"""Which layer makes the logits of an attention large: the cause of what a saturated attention does elsewhere."""

from collections.abc import Sequence

from orthoscope.probe import AttentionCall, Recording

# Set by hand, not yet by trainings: more than half of the heads with one key that gets all the weight.
MOST_ONE_HOT = 0.5


def larger_projection(
    recording: Recording, calls: Sequence[AttentionCall], sizes: Sequence[float], limit: float
) -> str:
    """The projection with the larger output, of the first attention beyond the limit, or else of the worst.

    The module that attends, where its projections were not seen.
    """
    beyond = next((index for index, size in enumerate(sizes) if size > limit), sizes.index(max(sizes)))
    call = calls[beyond]
    rms = {layer.name: layer.rms for layer in recording.layers}
    named = [name for name in (call.queries_from, call.keys_from) if name]
    return max(named, key=lambda name: rms.get(name, 0.0), default=call.module)


def saturating_projection(recording: Recording) -> str | None:
    """The projection that saturates most heads of the network; None if no attention is saturated."""
    shares = [call.one_hot_heads for call in recording.attention]
    if not shares or sum(shares) / len(shares) <= MOST_ONE_HOT:
        return None
    return larger_projection(recording, recording.attention, shares, MOST_ONE_HOT)
