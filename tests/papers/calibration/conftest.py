"""Images of noise in place of those that must be fetched: laws of the benchmark do not depend on what is seen."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from orthoscope.data.synthetic import images
from orthoscope_papers.calibration import tasks, trainability

CHANNELS = {"digits": 1, "fashion-mnist": 1, "cifar10": 3}
_CACHES = (tasks._guessing, tasks._principal_codes, trainability._reference_losses, trainability._batches)


def noise_pictures(name: str) -> tuple[Tensor, Tensor]:
    side = 8 if name == "digits" else tasks.SIDE
    generator = torch.Generator().manual_seed(len(name))
    return images(400, CHANNELS[name], side, side, generator), torch.randint(10, (400,), generator=generator)


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for cached in _CACHES:
        cached.cache_clear()
    monkeypatch.setattr(tasks, "pictures", noise_pictures)
    yield
    for cached in _CACHES:
        cached.cache_clear()
