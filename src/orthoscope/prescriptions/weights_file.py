"""Weights to a safetensors file, whole or not at all."""

import os
import secrets
from pathlib import Path

from safetensors.torch import save_model
from torch import nn


def write_weights(path: Path, model: nn.Module) -> None:
    """Parameters and buffers; tensors that are shared are written once. A file that was there stays until then."""
    # Beside the target: a rename is atomic only within one file system.
    temporary = path.with_name(f".orthoscope-{secrets.token_hex(8)}.tmp")
    try:
        temporary.touch()
        permissions = (
            temporary.stat().st_mode
        )  # of any new file here; safetensors replaces it by one for its owner only
        save_model(model, str(temporary))
        temporary.chmod(permissions)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
