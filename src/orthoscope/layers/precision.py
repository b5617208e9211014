"""Computing in full precision while the model around runs in half."""

from contextlib import AbstractContextManager, nullcontext

import torch


def full_precision(device_type: str) -> AbstractContextManager[None]:
    """Autocast would compute the products of a map, or of a penalty, in half precision."""
    if not torch.amp.is_autocast_available(device_type):
        return nullcontext()
    return torch.amp.autocast(device_type, enabled=False)
