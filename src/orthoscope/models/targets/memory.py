"""Whether a network fits into memory, asked before any of it is allocated."""

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from orthoscope.models.targets.target import TargetError, drawn_from

# Float32 weights and their gradients; activations come on top.
_BYTES_PER_PARAMETER = 8


def refuse_if_too_large(text: str, make: Callable[[], nn.Module], remedy: str) -> None:
    """A TargetError if weights and gradients of what `make` makes need more memory than there is.

    Counted on the meta device, where tensors have a shape and no values. A constructor that reads
    values fails there and cannot be counted: then nothing is refused.
    """
    available = available_memory()
    if available is None:
        return
    try:
        with drawn_from(torch.Generator()), torch.device("meta"):
            parameters = sum(parameter.numel() for parameter in make().parameters())
    except Exception:
        return
    needed = _BYTES_PER_PARAMETER * parameters
    if needed > available:
        raise TargetError(
            f"{text!r} has {parameters / 1e9:.1f} billion parameters, whose weights and gradients need "
            f"{needed / 2**30:.0f} GiB of the {available / 2**30:.0f} GiB available: {remedy}"
        )


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, also inside a container; None where nobody tells."""
    limits = [limit for limit in (_meminfo(), _control_group()) if limit is not None]
    if limits:
        return min(limits)
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _meminfo() -> int | None:
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(kilobytes[0]) if kilobytes else None


def _control_group() -> int | None:
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if not limit.exists() or not used.exists() or limit.read_text().strip() == "max":
        return None
    return int(limit.read_text()) - int(used.read_text())
