"""Writes docs/images/report.png, the top of a report page, from a real diagnosis: `make picture`.

Chromium draws the page without a window. Colors are reduced to a palette, so that the file stays small.
"""

import subprocess
import tempfile
from pathlib import Path

import torch
from PIL import Image
from torch import nn

import orthoscope
from orthoscope.files import replacing

PICTURE = Path(__file__).parent / "images" / "report.png"
WIDTH, HEIGHT, COLORS = 1280, 1080, 96


def diagnosis() -> orthoscope.Diagnosis:
    """The network of the README and the tutorial: 30 ReLU layers with PyTorch's default weights."""
    torch.manual_seed(0)
    hidden = [layer for _ in range(30) for layer in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(64, 10))
    return orthoscope.diagnose(model, orthoscope.data.load("digits").batch(64), nn.functional.cross_entropy)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page, screenshot = Path(folder, "report.html"), Path(folder, "report.png")
        diagnosis().save(page)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"]
        size = f"--window-size={WIDTH},{HEIGHT}"
        command = ["chromium", *flags, size, f"--screenshot={screenshot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        PICTURE.parent.mkdir(exist_ok=True)
        with replacing(PICTURE) as picture:
            Image.open(screenshot).convert("RGB").quantize(COLORS).save(picture, "PNG", optimize=True)
    print(f"wrote {PICTURE}, {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
