"""`TrainerCallback` in real trainings by `transformers.Trainer`: what it records, where it goes."""

import gc
import math
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import optimizer as torch_optimizer

# Third parties warn at import and in training; that is theirs.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

from orthoscope.models.targets.timm_zoo import repair_torchvision  # noqa: E402

repair_torchvision()

import transformers  # noqa: E402

from orthoscope import watcher  # noqa: E402
from orthoscope.watcher import TrainerCallback  # noqa: E402
from orthoscope.watcher.hooks import RiskWarning  # noqa: E402


class Sentences(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(50, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


def model(layers: int = 2) -> transformers.PreTrainedModel:
    transformers.set_seed(0)
    sizes = {"vocab_size": 50, "n_positions": 16, "n_embd": 16, "n_layer": layers, "n_head": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


def trainer(folder: Path, network: torch.nn.Module, *callbacks: Any, steps: int = 5, **options: Any) -> Any:
    settings = {
        "per_device_train_batch_size": 8,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "save_strategy": "no",
        "logging_steps": 100,
        **options,
    }
    arguments = transformers.TrainingArguments(str(folder), max_steps=steps, **settings)
    return transformers.Trainer(network, arguments, train_dataset=Sentences(), callbacks=list(callbacks))


def test_a_trainer_is_watched_and_trains_the_same(tmp_path: Path) -> None:
    plain, watched, seen = model(), model(), []
    callback = TrainerCallback(
        every=2, log=tmp_path / "run.jsonl", logger=lambda scalars, step: seen.append((step, scalars))
    )
    trainer(tmp_path, plain).train()
    watching = trainer(tmp_path, watched, callback)
    watching.train()
    for one, two in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, two)
    assert callback.watch is not None
    assert callback.watch.problems == []
    assert callback.watch.step == 5
    records = [record for record, _ in watcher.read_watch_log(tmp_path / "run.jsonl")]
    assert [record["step"] for record in records] == [0, 2, 4]
    assert [(record["step"], record["scalars"]) for record in records] == seen
    assert 4 <= len(records[0]["scalars"]) <= 8
    assert records[0]["diagnosis"]["gradient_of"] == "the loss"
    assert records[0]["diagnosis"]["samples"] == 8
    assert any("attn" in layer["name"] for layer in records[0]["diagnosis"]["layers"])
    history = [entry for entry in watching.state.log_history if "orthoscope/risk" in entry]
    assert [entry["step"] for entry in history] == [0, 2, 4]
    assert not watched._forward_pre_hooks


def test_attached_it_reports_through_the_trainer_with_accumulation_and_a_resumed_count(tmp_path: Path) -> None:
    logged: list[tuple[int, dict[str, float]]] = []

    class Reporter(transformers.TrainerCallback):
        """As those of TensorBoard and W&B are told."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "orthoscope/worst_gap" in logs:
                logged.append((state.global_step, dict(logs)))

    first = trainer(tmp_path, model(), steps=3, save_strategy="steps", save_steps=3)
    first.train()
    second = trainer(
        tmp_path, model(), Reporter(), steps=7, gradient_accumulation_steps=2, per_device_train_batch_size=4
    )
    callback = TrainerCallback(every=2).attach(second)
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert [step for step, _ in logged] == [4, 6]
    assert callback.watch is not None
    assert [record.step for record in callback.watch.history] == [4, 6]
    assert all(math.isfinite(value) for _, scalars in logged for value in scalars.values())


class Dying(torch.nn.Module):
    """Thirty layers of ReLU with PyTorch's weights: gradients vanish."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(50, 16)
        layers = [layer for _ in range(30) for layer in (torch.nn.Linear(16, 16), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(16, 50))

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layers(self.embedding(input_ids))
        return {"loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def test_a_sick_network_stops_the_trainer(tmp_path: Path) -> None:
    callback = TrainerCallback(every=1, on_risk="stop")
    sick = trainer(tmp_path, Dying(), callback)
    with pytest.warns(RiskWarning, match="after 0 steps the network is SICK"):
        sick.train()
    assert sick.state.global_step == 1


class Interrupted(transformers.TrainerCallback):
    def on_step_end(self, *_: Any, **__: Any) -> None:
        raise ArithmeticError("the cluster is on fire")


def test_a_training_that_raises_leaves_no_hooks_and_keeps_no_watch(tmp_path: Path) -> None:
    network, callback = Dying(), TrainerCallback(every=1)
    with pytest.raises(ArithmeticError), callback:
        trainer(tmp_path, network, callback, Interrupted()).train()
    assert not network._forward_pre_hooks
    assert not torch_optimizer._global_optimizer_pre_hooks
    assert not torch_optimizer._global_optimizer_post_hooks
    assert callback.watch is not None
    assert len(callback.watch.history) == 1
    # Without the context nobody tells it, but it ends with the callback.
    callback.on_train_begin(None, transformers.TrainerState(), None, model=network)
    watch = weakref.ref(callback.watch)
    handles = callback.watch._handles
    del callback
    gc.collect()
    assert watch() is None
    network(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.long))["loss"].backward()
    torch.optim.SGD(network.parameters(), 0.1).step()
    for handle in handles:
        handle.remove()


def test_bad_arguments_are_refused_before_training() -> None:
    with pytest.raises(ValueError, match="snapshots are at least 1 step apart"):
        TrainerCallback(every=0)
