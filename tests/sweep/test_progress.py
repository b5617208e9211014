"""The progress bar: its counts, and that it is drawn on terminals only."""

import io

from rich.console import Console

from orthoscope.sweep.drive import bar


def drawn(wanted: bool, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with bar(40, 10, wanted, console) as show:
        show(13, 2, 1)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_bar_shows_finished_failed_and_foreign_runs() -> None:
    text = drawn(wanted=True, terminal=True)
    assert "13/40" in text
    assert "2 failed, 1 run by another sweep" in text
    assert "left" in text


def test_the_bar_is_silent_without_a_terminal_and_when_disabled() -> None:
    assert drawn(wanted=True, terminal=False) == drawn(wanted=False, terminal=True) == ""
