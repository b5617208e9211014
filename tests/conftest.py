"""Shapes are checked while the tests run, and only then. What must be set before torch loads is set here."""

import os
from pathlib import Path

# Without this, bfloat16 products die with an illegal instruction on some CPUs.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# Stock architectures are built from their configurations; nothing may reach for a hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from jaxtyping import install_import_hook

install_import_hook(["orthoscope", "orthoscope_papers"], "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

# Two processes share two cores; deadlines would measure the neighbor.
settings.register_profile("orthoscope", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("orthoscope")
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# Markers of whole folders; slow tests outside of them are marked one by one.
_FOLDERS = {"browser": "browser", "distributed": "distributed", "zoo": "zoo", "papers": "papers", "errata": "papers"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in _FOLDERS:
            item.add_marker(_FOLDERS[folder])
