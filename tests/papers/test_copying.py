"""The copying task: what is shown and asked, a quick run that copies, and the saved full run."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from orthoscope_papers.ju2025 import copying
from orthoscope_papers.ju2025.copying import (
    ARMS,
    BLANK,
    QUICK,
    SIGN,
    Config,
    Row,
    check,
    memoryless,
    plot,
    run,
    sequences,
    training_losses,
)
from orthoscope_papers.results import plain, read_meta, read_table, save, table_of
from papers.figures import drawn

SAVED = Path(__file__).parents[2] / "results" / "ju2025" / "copying"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run(QUICK)


def test_ten_symbols_are_shown_and_asked_for_after_the_delay() -> None:
    inputs, said = next(sequences(7, 5, torch.Generator().manual_seed(0)))
    assert inputs.shape == (5, 27, 10)
    assert (inputs.sum(-1) == 1).all()
    shown = inputs.argmax(-1)
    assert ((shown[:, :10] >= 1) & (shown[:, :10] <= 8)).all()
    assert (shown[:, 10:16] == BLANK).all()
    assert (shown[:, 16] == SIGN).all()
    assert (shown[:, 17:] == BLANK).all()
    assert (said[:, :17] == BLANK).all()
    assert torch.equal(said[:, 17:], shown[:, :10])
    assert len(shown[:, :10].unique()) == 8


def test_the_memoryless_loss_is_that_of_blanks_and_guesses() -> None:
    _, said = next(sequences(30, 64, torch.Generator().manual_seed(0)))
    answers = torch.zeros(*said.shape, 10, dtype=torch.float64)
    answers[:, :40, BLANK] = 1
    answers[:, 40:, 1:9] = 1 / 8
    loss = -answers.gather(-1, said.unsqueeze(-1)).log().mean()
    assert loss.item() == pytest.approx(memoryless(30))


def test_the_quick_run_shows_the_claim(rows: list[Row]) -> None:
    assert all(check(rows).values()), [statement for statement, holds in check(rows).items() if not holds]


def test_the_checks_can_fail(rows: list[Row]) -> None:
    """Each arm under another's name: what tells them apart must then be found missing."""
    turned = dict(zip(ARMS, [*list(ARMS)[1:], next(iter(ARMS))], strict=True))
    for names in (turned, {new: old for old, new in turned.items()}):
        assert not all(check([row._replace(arm=names[row.arm]) for row in rows]).values())
    forgetful = [row._replace(loss=row.memoryless) for row in rows]
    copies, _, alone, helps = check(forgetful).values()
    assert (copies, alone, helps) == (False, False, False)
    diverged = [row._replace(loss=math.inf) for row in rows]
    assert not all(check(diverged).values())


def test_cells_joined_are_the_whole_run() -> None:
    short = dataclasses.replace(QUICK, delay=5, steps=20, hidden=8)
    parts = copying.cells(short)
    assert len(parts) == len(short.recurrent_rates)
    assert [row for part in parts for row in run(part)] == run(short)


def test_the_slides_are_corrected_where_the_start_alone_is_enough(rows: list[Row]) -> None:
    found = copying.compare(rows)
    assert [each.verdict for each in found[:2]] == ["agrees", "corrected"]
    assert found[-2].verdict == "agrees"
    forgetful = copying.compare([row._replace(loss=row.memoryless) for row in rows])
    assert [each.verdict for each in forgetful] == ["differs", "agrees", *["differs"] * 6]
    exchanged = {"orthogonal": "free, same start", "free, same start": "orthogonal"}
    turned = copying.compare([row._replace(arm=exchanged.get(row.arm, row.arm)) for row in rows])
    assert turned[-2].verdict == "differs"
    assert turned[-2].why.endswith("the opposite is seen")
    assert copying.compare([row for row in rows if row.recurrent_rate == 1e-3])[2:] == found[-3:], "one rate is enough"


def _seen(orthogonal: list[float], free: list[float]) -> list[Row]:
    """Losses in the second half; in the first all are the same."""
    arms = {"orthogonal": orthogonal, "free, same start": free, "free, Gaussian start": [2.0] * len(free)}
    return [
        Row(arm, 1e-3, seed, step, loss if step > 50 else 1.0, 1.0)
        for arm, losses in arms.items()
        for seed, loss in enumerate(losses)
        for step in (50, 75, 100)
    ]


def test_the_advantage_is_of_the_mean_and_a_seed_may_lose() -> None:
    rows = _seen([0.1, 0.4], [0.2, math.inf])
    assert copying.log_advantages(rows, 1e-3) == pytest.approx([math.log(2), math.inf])
    assert copying.log_advantages(rows, 1e-3, "first half of the steps") == [0.0, 0.0]
    ended = [row._replace(loss=0.1) if (row.step, row.seed) == (100, 0) else row for row in rows]
    assert copying.log_advantages(ended, 1e-3) == pytest.approx([math.log(2) / 2, math.inf]), "of two rows"
    assert copying.log_advantages(ended, 1e-3, "last row") == [0.0, math.inf]
    assert not copying.constraint_helps(_seen([0.1, 0.1, 0.4], [0.3, 0.4, 0.39]), 1e-3), "not decided"
    many = [0.1, 0.1, 0.1, 0.4], [0.3, 0.4, 0.35, 0.39]
    assert copying.constraint_helps(_seen(many[0] * 3, many[1] * 3), 1e-3), "one in four loses"
    assert not copying.constraint_helps(_seen(many[1] * 3, many[0] * 3), 1e-3)


def test_who_diverges_alone_has_lost() -> None:
    inf = math.inf
    assert copying.constraint_helps(_seen([0.1, 2.0], [inf, inf]), 1e-3)
    assert copying.constraint_helps(_seen([0.1, 0.1, 0.3], [inf, 0.1, inf]), 1e-3), "most of them do"
    assert not copying.constraint_helps(_seen([0.1, 0.1, 0.3], [inf, 0.1, 0.3]), 1e-3), "not most, and no advantage"
    assert not copying.constraint_helps(_seen([0.1, inf], [0.2, 0.2]), 1e-3)
    assert not copying.constraint_helps(_seen([0.1, inf, 0.1], [inf, inf, inf]), 1e-3)


def test_a_seed_repeats_itself_and_another_differs() -> None:
    short = dataclasses.replace(QUICK, delay=5, steps=3, hidden=8)
    losses = [training_losses(short, "orthogonal", 1e-3, seed) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_the_two_networks_of_the_same_start_begin_with_the_same_loss() -> None:
    short = dataclasses.replace(QUICK, delay=20, steps=1)
    first, second, third = (training_losses(short, arm, 1e-3, 0)[0] for arm in ARMS)
    assert first == pytest.approx(second, rel=1e-4)
    assert first != pytest.approx(third, rel=1e-4)


def test_a_diverged_run_is_infinite_to_its_end() -> None:
    wild = dataclasses.replace(QUICK, delay=20, steps=40, hidden=16, recurrent_rates=(1e3,))
    free = [row.loss for row in run(wild) if row.arm == "free, same start"]
    assert free == [math.inf, math.inf]


def test_the_figure_is_one_document_with_every_arm_and_no_number_that_is_not_finite(rows: list[Row]) -> None:
    broken = [row._replace(loss=math.inf) if row.step > 60 and row.arm != "orthogonal" else row for row in rows]
    for table in (rows, broken):
        document = drawn(plot(table))
        for arm in ARMS:
            assert document.count(f">{arm}<") == len(QUICK.recurrent_rates)


def test_the_saved_run_is_of_the_full_configuration_and_shows_the_claim() -> None:
    meta, saved = read_meta(SAVED), read_table(SAVED, Row)
    assert meta["config"] == plain(Config())
    assert meta["seeds"] == list(range(Config().num_seeds))
    assert meta["checks"] == check(saved)
    assert all(check(saved).values())
    assert {row.memoryless for row in saved} == {memoryless(200)}
    runs = len(ARMS) * len(Config().recurrent_rates) * Config().num_seeds
    assert len(saved) == runs * Config().steps // Config().every
    assert (SAVED / "figure.svg").read_text(encoding="utf-8") == drawn(plot(saved)), "drawn from the saved table"


def test_saved_results_name_versions_and_commit_but_no_place() -> None:
    meta = read_meta(SAVED)
    assert set(meta["versions"]) == {"orthoscope", "python", "torch", "numpy"}
    assert len(meta["commit"].removesuffix("+changes")) == 40
    assert meta["seconds"] > 0
    for file in SAVED.iterdir():
        assert not any(place in file.read_text(encoding="utf-8") for place in ("/home", "/tmp", "/work", "/root"))


def test_results_are_written_whole_and_a_foreign_table_is_refused(tmp_path: Path) -> None:
    tiny = dataclasses.replace(QUICK, delay=1, hidden=4, steps=20, recurrent_rates=(1e-3,))
    rows = save(tmp_path, "here/it", copying, tiny, table_of(run(tiny), Row), seconds=0.25)
    folder = tmp_path / "here" / "it"
    assert sorted(file.name for file in folder.iterdir()) == ["figure.svg", "meta.json", "table.csv"]
    assert read_meta(folder)["checks"] == check(rows)
    assert read_meta(folder)["setting"] == "default"
    assert read_table(folder, Row) == rows == run(tiny), "numbers survive the table to the last bit"
    json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    with (folder / "table.csv").open("a", encoding="utf-8") as table:
        table.write("orthogonal,0.1,0,20,0.0,1.0\n")
    with pytest.raises(ValueError, match=r"not the table that its meta.json describes: run the experiment again"):
        read_table(folder, Row)
