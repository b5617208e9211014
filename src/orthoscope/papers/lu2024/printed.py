"""Numbers and trends of the tables beside ours, in the words that all three tables share."""

from collections.abc import Sequence

from orthoscope.papers.cifar100 import CIFAR100
from orthoscope.papers.evidence import Evidence, interval


def cell(quantity: str, printed: float, values: Sequence[float], dataset: str) -> Evidence:
    """A printed number: it agrees if it is within two standard errors over seeds."""
    ours, low, high = interval(values)
    if low <= printed <= high:
        return Evidence(quantity, printed, ours, low, high, "agrees")
    reason = "architecture, learning rates and epochs are not printed"
    if dataset != CIFAR100:
        reason = f"{dataset} in place of CIFAR-100, a smaller network and fewer steps; {reason}"
    return Evidence(quantity, printed, ours, low, high, "differs", reason)
