"""Real documents to look at, and how they are opened."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from browser.chromium import Browser
from orthoscope import report
from orthoscope.diagnosis import diagnose
from orthoscope.diagnosis.targets import NamedNetwork

Document = dict[str, Any]


def fifty_layers() -> Document:
    return NamedNetwork("mlp(depth=50, weight_gain=0.75)").diagnose().document()


def thousand_layers() -> Document:
    """A thousand weight layers and as many activations, all measured; theory is filled in, for its size."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(*[part for _ in range(1000) for part in (nn.Linear(16, 16, bias=False), nn.Tanh())])
    for layer in model[::2]:
        nn.init.normal_(layer.weight, std=0.3, generator=generator)
    document = diagnose(model, torch.randn(16, 16, generator=generator), name="a thousand layers").document()
    expected = ("rms", "overlap", "gap", "effective_rank", "isometry_gap", "gradient_norm")
    for place, layer in enumerate(document["layers"]):
        layer["predicted"] = dict.fromkeys(expected, 1 / (place + 3))
    return document


def shown(browser: Browser, folder: Path, *documents: Document) -> Browser:
    report.write(folder / "report.html", list(documents))
    browser.open(folder / "report.html")
    browser.ready()
    return browser
