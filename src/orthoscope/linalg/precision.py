"""Computing in full precision while the model around runs in half."""

from contextlib import AbstractContextManager, nullcontext

import torch


def full_precision(device_type: str) -> AbstractContextManager[object]:
    """Autocast would compute the products of a map, or of a penalty, in half precision: here it is off.

    Entering autocast costs as much as a small product, so nothing is entered where it is off already.
    """
    if not torch.amp.is_autocast_available(device_type) or not torch.is_autocast_enabled(device_type):
        return nullcontext()
    return torch.amp.autocast(device_type, enabled=False)
