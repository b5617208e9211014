"""Stock architectures: the rule of the list, their tiny configurations and data, the trainings, and the page."""

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from orthoscope_papers.calibration import stock, stock_inputs, stock_trainings
from orthoscope_papers.calibration.shrinking import HIDDEN, LAYERS, SPECIAL, VOCABULARY, shrunk, tiny
from orthoscope_papers.calibration.stock_list import MOST_PARAMETERS, Architecture, covered, listed, timm_architecture
from orthoscope_papers.calibration.stock_networks import Stock, class_loss, next_token_loss
from orthoscope_papers.calibration.stock_page import page
from orthoscope_papers.results import save, table_of

# Third parties warn at import and at construction; that is theirs.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.zoo]

SAMPLE = (
    *("timm:convit_tiny", "timm:gernet_s"),
    *("transformers:bert", "transformers:gpt2", "transformers:llama", "transformers:t5", "transformers:vit"),
)


def test_the_list_covers_both_packages() -> None:
    packages = Counter(one.package for one in covered())
    assert packages["timm"] >= 100
    assert packages["transformers"] >= 120
    assert len({(one.package, one.family) for one in listed()}) == len(listed()), "one architecture a family"
    assert all(one.parameters <= MOST_PARAMETERS for one in covered())


@pytest.mark.parametrize("family", ["ghostnet/ghostnet", "selecsls/selecsls"])
def test_the_list_is_what_the_rule_finds(family: str) -> None:
    [one] = [one for one in listed() if one.family == family]
    assert timm_architecture(family) == one


@pytest.mark.parametrize("name", SAMPLE)
def test_a_stock_architecture_is_diagnosed_and_not_called_sick(name: str) -> None:
    [row] = stock.run(replace(stock.QUICK, names=(name,)))
    assert row.error == ""
    assert row.verdict in ("HEALTHY", "AT RISK"), row.alarms
    assert row.weight_layers > 5
    assert row.loss < 3 * math.log(VOCABULARY), "its own initialization is near guessing"
    assert row.trains == -1, "only a network called sick is trained"


def test_an_error_becomes_a_row_that_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **more: object) -> None:
        raise RuntimeError("shapes\ndiffer")

    monkeypatch.setattr(stock, "diagnose", fails)
    [row] = stock.run(replace(stock.QUICK, names=("transformers:gpt2",)))
    assert (row.error, row.verdict, row.family) == ("RuntimeError: shapes differ", "", "gpt2")
    assert stock.check([row, row._replace(error="", verdict="HEALTHY")])["no diagnosis fails"] is False


def made_up(count: int) -> list[stock.Row]:
    """Rows of architectures of both packages that are healthy."""
    nan = math.nan
    return [
        stock.Row(
            ("timm", "transformers")[number % 2], f"family {number}", f"name {number}", "classes", "x 16x3x64x64",
            1000 + number, 20, "HEALTHY", 0.05, "", "sample rank=0.9", 2.3, 1.0, "", nan, nan, nan, nan, nan, -1,
        )
        for number in range(count)
    ]  # fmt: skip


def test_the_claim_is_about_the_share_of_the_sick() -> None:
    healthy = made_up(200)
    sick = [row._replace(verdict="SICK") for row in healthy]
    few = int(stock.SICK_AT_MOST * len(healthy))
    assert all(stock.check(sick[:few] + healthy[few:]).values())
    assert not all(stock.check(sick[: few + 1] + healthy[few + 1 :]).values())
    assert next(one.verdict for one in stock.compare(sick)) == "differs"
    assert next(one.verdict for one in stock.compare(healthy)) == "agrees"


def test_a_tiny_configuration_keeps_its_structure() -> None:
    given = {
        "hidden_size": 4096,
        "residual_size": 4096,
        "num_hidden_layers": 32,
        "layer_types": ["full"] * 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128_000,
        "bos_token_id": 127_999,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "vision_config": {"model_type": "some_vision", "hidden_size": 1024, "image_size": 224, "patch_size": 14},
    }
    found = shrunk(given)
    assert found["hidden_size"] == found["residual_size"] == HIDDEN
    assert len(found["layer_types"]) == found["num_hidden_layers"] == LAYERS
    assert found["num_key_value_heads"] * 2 == found["num_attention_heads"], "queries still share keys"
    assert VOCABULARY - SPECIAL <= found["bos_token_id"] < VOCABULARY
    assert (found["eos_token_id"], found["hidden_act"]) == (2, "silu")
    assert found["vision_config"] == {
        "model_type": "some_vision",
        "hidden_size": 64,
        "image_size": 56,
        "patch_size": 14,
    }
    assert given["layer_types"] == ["full"] * 32, "the default configuration stays as it is"


def test_a_hierarchical_network_keeps_its_widths_and_loses_depth() -> None:
    config = tiny("convnext")
    assert config.hidden_sizes == [96, 192, 384, 768]
    assert config.depths == [2, 2, 2, 2]


def test_an_image_is_played_at_the_pitch_of_its_bright_row(monkeypatch: pytest.MonkeyPatch) -> None:
    voices, row = 32, 20
    image = torch.full((1, 1, voices, 64), -20.0)
    image[:, :, row] = 20.0
    monkeypatch.setattr(stock_inputs, "labeled_images", lambda dataset, samples: (image, torch.zeros(1)))
    sound = stock_inputs.waveforms("digits", 1, length=16_000, voices=voices)
    loudest = int(torch.fft.rfft(sound).abs().argmax())  # one second: a bin is a hertz
    assert loudest == pytest.approx(80 * (6000 / 80) ** (row / (voices - 1)), rel=0.01)
    assert sound.std().item() == pytest.approx(1, abs=1e-3)


def test_text_keeps_away_from_special_tokens() -> None:
    passages = stock_inputs.text(16, 32, VOCABULARY, SPECIAL)
    assert passages.min() >= 4
    assert passages.max() < VOCABULARY - SPECIAL
    assert len(passages.unique(dim=0)) == 16, "every passage is another"
    assert stock_inputs.text(16, 32, 33, 0).max() < 33


def test_the_loss_of_the_next_token_is_zero_where_it_is_known() -> None:
    tokens = torch.randint(9, (3, 5))
    known = nn.functional.one_hot(tokens.roll(-1, 1), 9) * 100.0
    assert next_token_loss(known, tokens) < 1e-6
    assert next_token_loss(known.roll(1, 1), tokens) > 1
    frames = torch.randn(3, 7, 9)
    assert torch.equal(class_loss(frames, tokens[:, 0]), cross_entropy(frames.mean(1), tokens[:, 0]))


class _Made(Architecture):
    """An architecture whose network is a layer that is trainable or not."""

    def build(self, dataset: str, samples: int, seed: int = 0) -> Stock:
        images, labels = stock_inputs.labeled_images(dataset, samples)
        layer = nn.Linear(64, 10)
        if self.family == "no loss":
            return Stock(layer, {"x": images}, None, None, "random direction")
        if self.family == "stuck":
            layer = nn.Linear(64, 10).requires_grad_(False)
            layer.bias = nn.Parameter(torch.zeros(10))
        return Stock(nn.Sequential(nn.Flatten(), layer), {"x": images}, labels, class_loss, "classes")


def test_a_training_tells_a_network_that_learns_from_one_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock_trainings, "_reference", lambda *arguments: 0.5)
    learns, stuck = (
        stock_trainings.train_proof(_Made("timm", name, name, 8, 0, 0, ""), "digits", 60)
        for name in ("linear", "stuck")
    )
    assert (learns.trains, stuck.trains) == (1, 0)
    assert min(learns[:3]) < 1 < min(stuck[:3])
    assert learns.guessing == pytest.approx(math.log(10), abs=0.2)


def test_without_a_loss_nothing_is_trained() -> None:
    one = _Made("timm", "no loss", "no loss", 8, 0, 0, "")
    assert stock_trainings.train_proof(one, "digits") is stock_trainings.UNTRAINED


def test_the_page_counts_the_rows_of_the_table(tmp_path: Path) -> None:
    alarm = "gradient growth: SICK at layer1.conv"
    found = [row._replace(verdict="SICK", alarms=alarm, trains=1) for row in made_up(3)] + made_up(40)[3:]
    save(tmp_path, "calibration/stock", stock, stock.QUICK, table_of(found, stock.Row), seconds=1.0)
    written = page(tmp_path)
    assert "name 0" in written
    assert "name 39" in written
    assert "gradient growth" in written
    assert re.search(r"\| *3 *\|", written), "three are sick"
