"""Muon on one process, under DDP, FSDP2 and HSDP gives the same numbers on any number of ranks.

The ranks are real processes on gloo (conftest.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from checkpoints import restored
from launch import Results
from tensor_parallel import tensor_parallel_training
from torch import Tensor, nn
from training import HALF, momenta_of, network, optimizer_of, parameters_of, prepared, train

from orthoscope.init import SCHEMES, initialize_, lsuv_
from orthoscope.optim.muon.cost import muon_cost
from orthoscope.optim.muon.views import MatrixView

TOLERANCE = 1e-12  # measured: 6e-15


@pytest.fixture(scope="session")
def alone() -> dict[str, Any]:
    """The training in one process."""
    model = network()
    optimizer = optimizer_of(model)
    train(model, optimizer, HALF)
    halfway = parameters_of(model), momenta_of(model, optimizer)
    train(model, optimizer, HALF)
    return {"halfway": halfway, "end": parameters_of(model)}


def distance(some: dict[str, Tensor], others: dict[str, Tensor]) -> float:
    assert some.keys() == others.keys()
    return max((some[name] - others[name]).abs().max().item() for name in some)


LAYOUTS = [(2, "ddp"), (2, "fsdp"), (4, "ddp"), (4, "fsdp"), (4, "hsdp")]


@pytest.mark.parametrize(("ranks", "layout"), LAYOUTS)
def test_twenty_steps_on_many_ranks_are_those_of_one_process(
    ranks: int, layout: str, alone: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    assert distance(results[0][layout]["end"], alone["end"]) < TOLERANCE
    assert distance(alone["halfway"][0], alone["end"]) > 0.01, "the training must move what is compared"


@pytest.mark.parametrize(("ranks", "layout"), LAYOUTS)
def test_ranks_stay_equal_to_the_last_bit(ranks: int, layout: str, request: pytest.FixtureRequest) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    for other in results[1:]:
        assert all(torch.equal(values, other[layout]["end"][n]) for n, values in results[0][layout]["end"].items())


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_placement_gives_the_result_of_full_tensors(ranks: int, request: pytest.FixtureRequest) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    errors = results[0]["exchange"]
    assert len(errors) == {2: 10, 4: 20}[ranks]
    # Measured: 0 where batches of one shape have the same members on all ranks.
    assert {case: error for case, error in errors.items() if not error < 1e3} == {}


def test_tensor_parallel_layers_move_as_in_one_process(four: Results) -> None:
    expected = tensor_parallel_training()
    assert all(distance(result["tensor parallel"], expected) < TOLERANCE for result in four)


def muon_shapes() -> tuple[list[tuple[int, ...]], list[MatrixView]]:
    group = optimizer_of(network()).param_groups[0]
    return [tuple(p.shape) for p in group["params"]], [MatrixView(*view) for view in group["views"]]


@pytest.mark.parametrize(("ranks", "layout"), LAYOUTS)
def test_bytes_sent_are_those_of_the_predicted_cost(ranks: int, layout: str, request: pytest.FixtureRequest) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    shapes, views = muon_shapes()
    shards = 2 if layout == "hsdp" else None
    cost = muon_cost(shapes, views, layout=layout, ranks=ranks, shards=shards, dtype=torch.float64)
    for rank, result in enumerate(results):
        expected: dict[str, int] = {}
        for call, sent in cost.sent.items():
            kind = call.split()[0]
            expected[kind] = expected.get(kind, 0) + sent[rank]
        assert result[layout]["sent"] == expected
        assert sum(result[layout]["sent"].values()) == cost.total_sent[rank]


def test_a_step_is_one_all_gather_under_ddp_and_two_all_to_all_under_fsdp(two: Results) -> None:
    assert two[0]["ddp"]["calls"] == {"agreement": 1, "all_gather": 1}
    assert two[0]["fsdp"]["calls"] == {"agreement": 1, "all_to_all": 2}


@pytest.mark.parametrize(
    ("ranks", "way", "source"),
    [
        (2, "fsdp2 to ddp", "fsdp"),
        (2, "ddp2 to fsdp", "ddp"),
        (4, "fsdp2 to fsdp", "fsdp"),
        (4, "ddp2 to hsdp", "ddp"),
    ],
)
def test_a_checkpoint_resumes_in_another_layout_and_on_other_ranks(
    ranks: int, way: str, source: str, two: Results, request: pytest.FixtureRequest
) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    check_resumed(results[0][way], two[0][source])


def check_resumed(resumed: dict[str, Any], uninterrupted: dict[str, Any]) -> None:
    weights, momenta = resumed["halfway"]
    assert distance(weights, uninterrupted["halfway"][0]) == 0
    assert distance(momenta, uninterrupted["halfway"][1]) == 0
    assert distance(resumed["end"], uninterrupted["end"]) < TOLERANCE


def resumed_here(layout: str, folder: Path) -> dict[str, Any]:
    model: nn.Module = prepared(layout, network(seed=7))
    optimizer = optimizer_of(model)
    assert distance(parameters_of(model), parameters_of(network())) > 0.01, "the checkpoint must have something to do"
    restored(model, optimizer, folder)
    halfway = parameters_of(model), momenta_of(model, optimizer)
    train(model, optimizer, HALF)
    return {"halfway": halfway, "end": parameters_of(model)}


# torch's own remark on a checkpoint that is read without a process group.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
@pytest.mark.parametrize("source", ["fsdp", "ddp"])
def test_a_checkpoint_of_two_ranks_resumes_in_a_plain_process(source: str, two_folder: Path, two: Results) -> None:
    check_resumed(resumed_here("plain", two_folder / f"{source}2"), two[0][source])


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_a_checkpoint_of_two_ranks_resumes_sharded_on_one(two_folder: Path, two: Results) -> None:
    check_resumed(resumed_here("fsdp", two_folder / "fsdp2"), two[0]["fsdp"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sharded_weights_start_with_the_numbers_of_one_process(scheme: str, two: Results) -> None:
    model = nn.Sequential(nn.Linear(10, 7), nn.Conv2d(6, 9, 3, groups=3), nn.ConvTranspose2d(5, 4, 2))
    initialize_(model, scheme, generator=torch.Generator().manual_seed(5))
    for result in two:
        for values, expected in zip(result["init"][scheme], model.parameters(), strict=True):
            assert torch.equal(values, expected)


@pytest.mark.usefixtures("one_rank")
def test_lsuv_refuses_sharded_layers() -> None:
    model = prepared("fsdp", network())
    with pytest.raises(ValueError, match=r"layer 'convolution' is sharded"):
        lsuv_(model, torch.randn(4, 2, 5, 5, dtype=torch.float64))
