"""A diagnosis on several ranks, each with its part of the batch, is that of one process with all of it."""

import pytest
from diagnosis_cases import CASES
from launch import launch

FEW = ["a rank without samples", "tokens with a loss"]
OTHERS = ["trained", "failing", "uneven lengths"]  # the worker says what each of them is about


@pytest.mark.parametrize(
    ("ranks", "wrappers", "cases"),
    [(2, ["DDP", "FSDP"], list(CASES)), (4, ["HSDP"], FEW)],
    ids=["DDP and FSDP2 on 2 ranks", "HSDP on 4 ranks"],
)
def test_ranks_find_together_what_one_process_finds(ranks: int, wrappers: list[str], cases: list[str]) -> None:
    """Every row, name, norm and finding to 1e-10 in float64, on every rank; and the model is left bit-identical."""
    printed = launch("diagnosis_worker.py", ranks, ",".join(cases))
    results = [line for line in printed if line.startswith((*(f"{wrapper}: " for wrapper in wrappers), "plain: "))]
    expected = [f"{wrapper}: {case}: same" for wrapper in wrappers for case in [*cases, *OTHERS]]
    # A plain model is nobody's part: its five samples are all there are, whoever else runs.
    assert results == ["plain: alone: 5", *expected]
