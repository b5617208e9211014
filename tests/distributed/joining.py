"""How a rank joins its process group."""

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroupGloo, Store, distributed_c10d

_init = ProcessGroupGloo.__init__


def join(**rendezvous: Any) -> None:
    """Join the other ranks on gloo; `rendezvous` is what `init_process_group` takes, nothing under torchrun.

    This group, and each that is made later, has one thread instead of two, a number that torch lets nobody choose.
    Both threads of a group (torch 2.13, `ProcessGroupGloo::runLoop`) write the name of what they ended last into one
    string, without a lock. A name of more than 15 letters, as ALLGATHER_COALESCED of `full_tensor`, has memory of its
    own: when two collectives end at once, both threads free that of the name before, and whoever asks for memory next
    is aborted. One launch in some dozens ended so.
    """
    ProcessGroupGloo.__init__ = _init_with_one_thread
    dist.init_process_group("gloo", **rendezvous)


def _init_with_one_thread(group: ProcessGroupGloo, store: Store, rank: int, size: int, timeout: timedelta) -> None:
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    device = group.create_device(interface=interface) if interface else group.create_default_device()
    options = ProcessGroupGloo._Options()
    options._devices, options._threads, options._timeout = [device], 1, timeout
    _init(group, store, rank, size, options)


def threads_of_groups() -> list[int]:
    """The number of threads of each process group."""
    return [group._get_backend(torch.device("cpu")).options._threads for group in distributed_c10d._world.pg_map]
