"""Tables 2 to 4 of Lu et al. (2024): quick runs, what they find, and how printed numbers are put beside them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from orthoscope.metrics import parameter_independence
from orthoscope.models.blocks import ResidualBlock
from orthoscope_papers.datasets import labeled, read_records
from orthoscope_papers.evidence import trend
from orthoscope_papers.experiments import load
from orthoscope_papers.lu2024 import table_2
from orthoscope_papers.lu2024.independence import accuracy, at_best_rate, by_seed, printed_number, trained
from orthoscope_papers.lu2024.networks import convolutional, fully_connected, images, three_layers
from papers.figures import drawn

TABLES = {name: load(f"lu2024/{name}") for name in ("table_2", "table_3", "table_4")}
each = pytest.mark.parametrize("name", TABLES)


@pytest.fixture(scope="module")
def quick() -> dict[str, list[Any]]:
    return {name: table.run(table.settings["quick"]) for name, table in TABLES.items()}


@each
def test_the_quick_run_finds_what_is_claimed(name: str, quick: dict[str, list[Any]]) -> None:
    found = TABLES[name].check(quick[name])
    assert found
    assert all(found.values()), [statement for statement, holds in found.items() if not holds]


@each
def test_cells_joined_are_the_whole_run(name: str) -> None:
    short = dataclasses.replace(TABLES[name].settings["quick"], steps=2, samples=128)
    assert [row for part in TABLES[name].cells(short) for row in TABLES[name].run(part)] == TABLES[name].run(short)


@each
def test_no_check_survives_a_table_without_the_effect(name: str, quick: dict[str, list[Any]]) -> None:
    rows = quick[name]
    idle = [row._replace(pii=row.pii_at_start, accuracy=0.1) for row in rows]
    upside_down = [row._replace(pii=1 - row.pii, accuracy=1 - row.accuracy, pii_at_start=0.5) for row in rows]
    odd = [row._replace(pii=row.pii * (1 + (getattr(row, "optimizer", "") == "AdamW"))) for row in rows]
    raised = [row._replace(pii=row.pii * (1 + 0.2 * (getattr(row, "arm", "") == "norm_residual"))) for row in rows]
    seen = [TABLES[name].check(changed) for changed in (idle, upside_down, odd, raised)]
    assert all(any(not found[statement] for found in seen) for statement in TABLES[name].check(rows))


@each
def test_every_printed_cell_is_beside_a_measured_one(name: str, quick: dict[str, list[Any]]) -> None:
    evidence = TABLES[name].compare(quick[name])
    printed = [entry.printed for entry in evidence if entry.printed is not None]
    cells = {"table_2": 4 * 3 + 2, "table_3": 2 * 4, "table_4": 4 * 3}[name]
    assert len(printed) == cells
    assert len({entry.quantity for entry in evidence}) == len(evidence)
    for entry in evidence:
        assert entry.low <= entry.ours <= entry.high
        assert entry.verdict == "agrees" or entry.why
        assert "digits" in entry.why or entry.verdict == "agrees" or entry.printed is None


@each
def test_the_figure_is_one_document(name: str, quick: dict[str, list[Any]]) -> None:
    assert "digits" in drawn(TABLES[name].plot(quick[name])), "the figure says which data stands in"


@each
def test_the_printed_setting_asks_for_cifar_100_in_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTHOSCOPE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"needs CIFAR-100.*train\.bin and test\.bin of its binary version"):
        TABLES[name].run(TABLES[name].settings["full"])


def test_cifar_100_on_disk_is_read_with_its_fine_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTHOSCOPE_DATA", str(tmp_path))
    records = torch.randint(0, 256, (5, 3074), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    records[:, 0], records[:, 1] = 7, torch.tensor([3, 99, 0, 41, 5])
    folder = tmp_path / "cifar100"
    folder.mkdir()
    (folder / "train.bin").write_bytes(records.numpy().tobytes())
    (folder / "test.bin").write_bytes(records[:2].numpy().tobytes())
    data = labeled("cifar100", "train")
    assert data.labels.tolist() == [3, 99, 0, 41, 5]
    # Red first, row by row.
    assert int(data.pixels[1, 0, 0, 5]) == int(records[1, 2 + 5])
    assert int(data.pixels[1, 2, 31, 31]) == int(records[1, -1])
    part = images("cifar100", 3, 2, 2)
    assert part.labels.tolist() == [3, 99, 0]
    assert part.held_out[1].tolist() == [41, 5]
    assert float(part.inputs.min()) >= -1
    assert float(part.inputs.max()) <= 1
    with pytest.raises(ValueError, match="has 5 images to train on"):
        images("cifar100", 5, 2, 2)


@pytest.mark.parametrize(
    ("contents", "message"), [(b"", "0 bytes"), (b"x" * 3000, "3000 bytes"), (b"\xff" * 3074, "99")]
)
def test_a_file_that_is_not_of_cifar_100_is_refused(tmp_path: Path, contents: bytes, message: str) -> None:
    (tmp_path / "train.bin").write_bytes(contents)
    with pytest.raises(ValueError, match=message):
        read_records(tmp_path / "train.bin", "train")


def test_rows_of_the_first_layer_begin_parallel_and_the_others_at_128_and_256_components() -> None:
    network = three_layers(1, 4, 10, torch.Generator().manual_seed(0))
    first, second, third = (layer.weight.detach() for layer in network.hidden)
    assert float(parameter_independence(first)) == pytest.approx(1)
    assert (second.shape[1], third.shape[1]) == (128, 256)
    assert float(parameter_independence(second)) == pytest.approx(0.0707, rel=0.02)
    assert float(parameter_independence(third)) == pytest.approx(0.0499, rel=0.02)


@pytest.mark.parametrize("build", [fully_connected, convolutional])
def test_the_norm_comes_after_the_skip_as_in_equation_5(build: Any) -> None:
    """x ← BN(x + f(Wx + b)), by hand, from the input of the second hidden layer."""
    inputs = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    sizes = (3 * 8 * 8, 5) if build is fully_connected else (3, 5)
    model = build(*sizes, 10, True, True, torch.Generator().manual_seed(0)).model
    seen: dict[str, torch.Tensor] = {}

    def record(module: nn.Module, given: Any, result: torch.Tensor) -> None:
        seen["in"], seen["out"] = given[0], result

    model.hidden_2.register_forward_hook(record)
    model(inputs)
    weight = next(m for m in model.hidden_2.modules() if isinstance(m, nn.Linear | nn.Conv2d))
    total = seen["in"] + nn.functional.gelu(weight(seen["in"]))
    axes = [0, *range(2, total.ndim)]
    variance, mean = torch.var_mean(total, axes, correction=0, keepdim=True)
    torch.testing.assert_close(seen["out"], (total - mean) / (variance + 1e-5).sqrt())


def test_all_arms_have_the_same_weights_and_differ_in_what_they_say() -> None:
    built = {
        flags: fully_connected(12, 6, 10, *flags, torch.Generator().manual_seed(0)).model
        for flags in [(False, False), (True, False), (False, True), (True, True)]
    }
    first = built[False, False]
    for (normalized, residual), model in built.items():
        norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
        skips = [m.skip for m in model.modules() if isinstance(m, ResidualBlock)]
        assert len(norms) == 3 * normalized
        assert skips == [residual] * 3
        weights = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
        assert all(
            torch.equal(a, b)
            for a, b in zip(weights, [m.weight for m in first.modules() if isinstance(m, nn.Linear)], strict=True)
        )


def test_training_reports_the_weights_before_and_after_and_a_seed_repeats_itself() -> None:
    data = images("digits", 200, 100, 100)
    results = []
    for _ in range(2):
        network = fully_connected(64, 8, 10, True, True, torch.Generator().manual_seed(3))
        before = [layer.weight.detach().clone() for layer in network.hidden]
        results.append(trained(network, data, "Adam", 1.0, steps=3, batch=16, seed=3))
    assert results[0] == results[1]
    for row, start, layer in zip(results[1].layers, before, network.hidden, strict=True):
        assert row.pii_at_start == pytest.approx(float(parameter_independence(start)))
        assert row.pii == pytest.approx(float(parameter_independence(layer.weight.detach())))
        assert row.moved == pytest.approx(float((layer.weight.detach() - start).norm() / start.norm()), rel=1e-5)
    assert results[1].accuracy == accuracy(network.model, *data.test)


def test_accuracy_counts_every_sample_once_and_leaves_the_model_in_training() -> None:
    model = nn.Sequential(nn.Dropout(1.0), nn.Identity())
    logits = torch.eye(3).repeat(401, 1)
    labels = torch.tensor([0, 1, 1]).repeat(401)
    assert accuracy(model, logits, labels) == pytest.approx(2 / 3)
    assert model.training


def test_the_best_rate_has_the_highest_held_out_accuracy_and_numbers_are_averaged_over_layers_first() -> None:
    row = table_2.Row("digits", "SGD", 1.0, 0.1, 0, 1, 128, 0.0, 0.2, 0.0, 0.9, 0.5)
    rows = [
        row,
        row._replace(layer=2, pii=0.4),
        row._replace(seed=1, pii=0.8),
        row._replace(multiple=3.0, held_out=0.8),
    ]
    assert at_best_rate(rows) == rows[:3]
    assert by_seed(rows[:3], lambda row: row.pii) == pytest.approx([0.3, 0.8])


def test_a_printed_number_agrees_inside_the_interval_and_a_trend_by_its_sign() -> None:
    values: Sequence[float] = [0.1, 0.2, 0.3]
    assert printed_number("x", 0.25, values, "cifar10").verdict == "agrees"
    far = printed_number("x", 0.5, values, "cifar10")
    assert (far.verdict, far.printed) == ("differs", 0.5)
    assert "cifar10 in place of CIFAR-100" in far.why
    assert "in place" not in printed_number("x", 0.5, values, "cifar100").why
    assert trend("x", values, 1).verdict == "agrees"
    assert trend("x", values, -1).why == "the opposite is seen"
    assert trend("x", [-1.0, 1.1], 1).why.startswith("not decided")
