"""What may go wrong on one of many ranks: it dies, has no gradient where others have one, or its threads meet.

First of this folder, so that two workers of pytest launch what takes longest side by side.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from launch import Results, loaded
from restart_worker import DEATH, EVERY


def test_a_rank_that_is_killed_and_restarted_changes_no_bit(launched: Callable[..., Path], two: Results) -> None:
    results = loaded(launched("restart", "restart_worker.py", 2, restarts=1), 2)
    for result in results:
        assert (result["attempt"], result["start"]) == (1, DEATH // EVERY * EVERY)
        assert all(torch.equal(values, two[0]["fsdp"]["end"][name]) for name, values in result["end"].items())


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_gradient_that_some_ranks_lack_is_an_error_on_all_of_them(ranks: int, request: pytest.FixtureRequest) -> None:
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    counts = ", ".join(["7"] * (ranks - 1))
    for result in results:
        assert f"({counts}, 6 on ranks 0 to {ranks - 1})" in result["missing"]["one"]
        assert f"({counts}, 0 on ranks 0 to {ranks - 1})" in result["missing"]["all"]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("case", ["another of that shape", "another, sharded"])
def test_ranks_that_lack_gradients_of_different_layers_of_one_shape_all_say_so(
    ranks: int, case: str, request: pytest.FixtureRequest
) -> None:
    """Every rank has one matrix of four by four: shapes alone would let the last one's move another layer."""
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    ones = ", ".join(["1"] * ranks)
    for result in results:
        assert result["missing"][case].startswith(
            f"the ranks have gradients for different parameters ({ones} on ranks 0 to {ranks - 1}): give a parameter"
        )


@pytest.mark.parametrize("ranks", [2, 4])
def test_no_group_of_a_rank_has_threads_that_could_race(ranks: int, request: pytest.FixtureRequest) -> None:
    """Also none that a mesh made: two threads of one group free the same memory, as `joining.join` says."""
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    for result in results:
        assert set(result["threads"]) == {1}
