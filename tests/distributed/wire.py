"""Counts the bytes that a rank sends, where torch calls the backend."""

from collections import Counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode


class WireBytes(TorchDispatchMode):
    """Payload for other ranks by call: a rank's own slice is not sent, and an all_gather goes around a ring."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its operations on plain tensors are dispatched next
        if func.namespace in ("c10d", "_c10d_functional"):
            self._count(func._schema.name.split("::")[1], args)
        return func(*args, **(kwargs or {}))

    def _count(self, name: str, args: Any) -> None:
        if name == "_allgather_base_":
            gathered, own = args[0], args[1]
            call = "agreement" if own.dtype == torch.int64 else "all_gather"
            self.sent[call] += _bytes(gathered) - _bytes(own)
        elif name == "alltoall_base_":
            call, own, splits = "all_to_all", args[1], args[4]
            self.sent[call] += _bytes(own) - splits[dist.ProcessGroup.unbox(args[2]).rank()] * own.element_size()
        else:
            call = name
        self.calls[call] += 1


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
