"""A diagnosis on several ranks, each with its part of the batch, is that of one process with all of it."""

import pytest
from diagnosis_cases import CASES_OF
from launch import Results

OTHERS = ("trained", "failing", "uneven lengths")  # `diagnoses` says what each of them is about


@pytest.mark.parametrize(
    ("ranks", "wrappers"),
    [(2, ["DDP", "FSDP"]), (4, ["HSDP"])],
    ids=["DDP and FSDP2 on 2 ranks", "HSDP on 4 ranks"],
)
def test_ranks_find_together_what_one_process_finds(
    ranks: int, wrappers: list[str], request: pytest.FixtureRequest
) -> None:
    """Every row, name, norm and finding to 1e-10 in float64, on every rank; and the model is left bit-identical."""
    results: Results = request.getfixturevalue({2: "two", 4: "four"}[ranks])
    # A plain model is nobody's part: its five samples are all there are, whoever else runs.
    expected = ["plain: alone", *(f"{wrapper}: {case}" for wrapper in wrappers for case in (*CASES_OF[ranks], *OTHERS))]
    for result in results:
        assert result["diagnosis"] == dict.fromkeys(expected, "same")
