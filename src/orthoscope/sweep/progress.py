"""A bar with the time left, on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Show = Callable[[int, int, int], None]


@contextmanager
def bar(total: int, done: int, wanted: bool, console: Console | None = None) -> Iterator[Show]:
    """Draws (runs done, of them failed, runs that another sweep is doing) on standard error and leaves nothing behind.

    The time left is that of the runs still to do at the pace of those done in this sweep: runs found finished at the
    start do not count as speed.
    """
    console = console or Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not (wanted and console.is_terminal)) as progress:
        task = progress.add_task("", total=total, completed=done)

        def show(done: int, failed: int, elsewhere: int) -> None:
            remarks = [f"{failed} failed"] * (failed > 0) + [f"{elsewhere} done elsewhere"] * (elsewhere > 0)
            progress.update(task, completed=done, description=", ".join(remarks))

        yield show
