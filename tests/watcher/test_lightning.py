"""`LightningCallback` in real trainings by Lightning: what it records, where it goes, that it changes nothing."""

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer

# Third parties warn at import and in training; that is theirs.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

from orthoscope.models.targets.timm_zoo import repair_torchvision  # noqa: E402

repair_torchvision()

import lightning  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from orthoscope import watcher  # noqa: E402
from orthoscope.watcher import LightningCallback  # noqa: E402
from orthoscope.watcher.hooks import RiskWarning  # noqa: E402


class Task(lightning.LightningModule):
    """Closures, dropout and batch norm; `depth` layers of ReLU with PyTorch's weights."""

    def __init__(self, depth: int = 2, whole: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        hidden = [layer for _ in range(depth) for layer in (nn.Linear(20, 20), nn.ReLU())]
        self.model = nn.Sequential(nn.Linear(10, 20), *hidden, nn.Dropout(0.1), nn.Linear(20, 4))
        self.whole = whole
        if whole:
            self.head = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.model(inputs))

    def training_step(self, batch: Any, index: int) -> Tensor:
        inputs, labels = batch
        return nn.functional.cross_entropy(self(inputs) if self.whole else self.model(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-3)


def fit(task: Task, folder: Path, callback: LightningCallback | None, steps: int = 5, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(0)
    data = torch.utils.data.TensorDataset(
        torch.randn(64, 10, generator=generator), torch.randint(4, (64,), generator=generator)
    )
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=CSVLogger(folder, flush_logs_every_n_steps=1),
        callbacks=[callback] if callback else [],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **options,
    )
    trainer.fit(task, torch.utils.data.DataLoader(data, batch_size=16))
    return trainer


@pytest.mark.parametrize("whole", [False, True])
def test_a_training_is_watched_and_stays_the_same(whole: bool, tmp_path: Path) -> None:
    plain, watched = Task(whole=whole), Task(whole=whole)
    callback = LightningCallback(every=2, log=tmp_path / "run.jsonl")
    torch.manual_seed(1)
    fit(plain, tmp_path / "plain", None)
    torch.manual_seed(1)
    fit(watched, tmp_path, callback)
    for one, two in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, two)
    records = [record for record, _ in watcher.read_watch_log(tmp_path / "run.jsonl")]
    assert [record["step"] for record in records] == [0, 2, 4]
    assert records[0]["diagnosis"]["name"] == ("Task" if whole else "Sequential")
    assert callback.watch is not None
    assert callback.watch.problems == []
    (table,) = tmp_path.glob("lightning_logs/version_0/metrics.csv")
    rows = [row for row in csv.DictReader(table.open()) if row.get("orthoscope/worst_gap")]
    assert [int(row["step"]) for row in rows] == [0, 2, 4]
    assert float(rows[-1]["orthoscope/worst_gap"]) == pytest.approx(records[-1]["scalars"]["orthoscope/worst_gap"])
    assert not watched.model._forward_pre_hooks


def test_a_part_is_named_and_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    callback = LightningCallback(every=1, network="model", logger=None)
    fit(Task(whole=True), tmp_path, callback, steps=2, accumulate_grad_batches=2)
    assert callback.watch is not None
    assert [record.step for record in callback.watch.history] == [0, 1]
    assert type(callback.watch.model).__name__ == "Sequential"
    with pytest.raises(ValueError, match="no child 'nothing': choose one of model"):
        fit(Task(), tmp_path, LightningCallback(network="nothing"))


def test_a_sick_network_stops_the_training(tmp_path: Path) -> None:
    callback = LightningCallback(every=1, on_risk="stop")
    with pytest.warns(RiskWarning, match="after 0 steps the network is SICK"):
        trainer = fit(Task(depth=40), tmp_path, callback)
    assert trainer.global_step == 1


def test_a_training_that_raises_leaves_no_hooks(tmp_path: Path) -> None:
    task, callback = Task(), LightningCallback(every=1, logger=None)
    task.on_train_batch_end = lambda *_: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        fit(task, tmp_path, callback)
    assert callback.watch is not None
    assert len(callback.watch.history) == 1
    assert not task.model._forward_pre_hooks
    assert not torch_optimizer._global_optimizer_pre_hooks
    assert not torch_optimizer._global_optimizer_post_hooks


def test_a_missing_library_is_one_sentence_and_importing_callbacks_loads_none() -> None:
    code = (
        "import sys, orthoscope.watcher\n"
        "assert not {'transformers', 'lightning'} & set(sys.modules)\n"
        "sys.modules['lightning'] = sys.modules['transformers'] = None\n"
        "for name in orthoscope.watcher.__all__:\n"
        "    try: getattr(orthoscope.watcher, name)\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert shown.stdout.splitlines() == [
        "LightningCallback needs lightning, which is not installed: pip install lightning",
        "TrainerCallback needs transformers, which is not installed: pip install transformers",
    ]
