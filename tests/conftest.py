"""Shapes are checked while the tests run, and only then. What must be set before torch loads is set here."""

import os

# Without this, bfloat16 products die with an illegal instruction on some CPUs.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# Stock architectures are built from their configurations; nothing may reach for a hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from jaxtyping import install_import_hook

install_import_hook("orthoscope", "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

# Two processes share two cores; deadlines would measure the neighbour.
settings.register_profile("orthoscope", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("orthoscope")
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
