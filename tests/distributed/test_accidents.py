"""Failures of one of many ranks: a killed process, a missing gradient, racing threads.

First of this folder, so that two workers of pytest launch what takes longest side by side.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from launch import Results, loaded
from restart_worker import DEATH, EVERY


def test_training_after_a_killed_rank_and_a_restart_is_bit_identical(
    launched: Callable[..., Path], two: Results
) -> None:
    results = loaded(launched("restart", "restart_worker.py", 2, restarts=1), 2)
    for result in results:
        assert (result["attempt"], result["start"]) == (1, DEATH // EVERY * EVERY)
        assert all(torch.equal(values, two[0]["fsdp"]["end"][name]) for name, values in result["end"].items())


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_gradient_missing_on_some_ranks_raises_on_all(ranks: int, request: pytest.FixtureRequest) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    counts = ", ".join(["7"] * (ranks - 1))
    for result in results:
        assert f"({counts}, 6 on ranks 0 to {ranks - 1})" in result["missing"]["one"]
        assert f"({counts}, 0 on ranks 0 to {ranks - 1})" in result["missing"]["all"]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("case", ["another of that shape", "another, sharded"])
def test_gradients_missing_for_different_layers_of_one_shape_raise_on_all_ranks(
    ranks: int, case: str, request: pytest.FixtureRequest
) -> None:
    """Every rank has one matrix of four by four: by shapes alone, the last rank's would move another layer."""
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    ones = ", ".join(["1"] * ranks)
    for result in results:
        assert result["missing"][case].startswith(
            f"the ranks have gradients for different parameters ({ones} on ranks 0 to {ranks - 1}): give a parameter"
        )


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_process_group_has_a_single_thread(ranks: int, request: pytest.FixtureRequest) -> None:
    """Also those of a mesh; with two threads a group may free the same memory twice (see `joining.join`)."""
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    for result in results:
        assert set(result["threads"]) == {1}
