"""The command line: its name, help and exit codes, and what its verbs share.

Verbs register themselves. They share where results are written, what is refused before the work begins, and a progress
bar; whatever a user got wrong ends in one sentence and exit code 2.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError

if TYPE_CHECKING:
    from orthoscope.report.document import Document

FOUND, BAD_INPUT, INTERRUPTED = 1, 2, 130


def _version() -> str:
    from orthoscope.version import VERSION

    return VERSION


app = App(
    name="orthoscope",
    help="Will this network train; if not, where does the signal die or the gradient explode, and why?",
    help_epilogue="Exit codes: 0 done, 1 a symptom of --fail-on was found, --at-least was missed, "
    "a verdict became worse, or a check of reproduce failed, 2 bad input.",
    version=_version,
)


def show(documents: "Sequence[Document]", to_stderr: bool) -> None:
    """Print one document in full, or a table of several."""
    from rich.console import Console

    from orthoscope import report

    console = Console(stderr=to_stderr)
    if len(documents) > 1:
        console.print(report.gallery_table(documents))
    elif documents:
        console.print(report.terminal(documents[0]))
        code = report.code_to_paste(documents[0])
        if code:
            console.print(code, markup=False, highlight=False, soft_wrap=True)


def write(documents: "Sequence[Document]", html: Path | None, json: str | None) -> None:
    """Write the documents as a page and as JSON, where asked for."""
    from orthoscope import report

    if not documents:
        return
    for path in (html, json):
        if path is not None and path != "-":
            report.write(path, documents)
            print(f"wrote {path}", file=sys.stderr)
    if json == "-":
        print(report.report_json(documents))


def write_text(content: str, path: str | Path | None) -> None:
    """Print text if its place is "-", or write it whole and say where."""
    from orthoscope.files import replace

    if path == "-":
        print(content, end="")
    elif path is not None:
        replace(Path(path), content)
        print(f"wrote {path}", file=sys.stderr)


def refuse_unwritable(html: Path | None, json: str | None, markdown: Path | None = None) -> None:
    """Say now, not after minutes of work, that an output cannot be written."""
    for path, suffix in ((html, ".html"), (json if json != "-" else None, ".json"), (markdown, ".md")):
        refuse_unwritable_as(path, suffix)


def refuse_unwritable_as(path: str | Path | None, suffix: str) -> None:
    """Raise a ValueError if a file with this suffix cannot be written there."""
    if path is None:
        return
    if Path(path).suffix != suffix:
        raise ValueError(f"{str(path)!r} does not end in {suffix}: give a name that does")
    if Path(path).is_dir():
        raise ValueError(f"{str(path)!r} is a folder: give the name of a file")
    if not os.access(Path(path).absolute().parent, os.W_OK):
        raise ValueError(f"{str(path)!r} cannot be written: its folder is missing or closed to you")


def refuse_closed(folder: Path) -> None:
    """The same of a folder that need not be there yet."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"{str(folder)!r} cannot hold results: {str(there)!r} is no folder, or closed to you")


@contextlib.contextmanager
def progress_bar() -> Iterator[tuple[Callable[[float, str], None], Callable[[str], None]]]:
    """A bar on standard error that leaves nothing behind: (share done, what is going on), and a way to say a line."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)

        def advance(share: float, what: str) -> None:
            bar.update(task, completed=share, description=plain(what))

        yield advance, lambda line: console.print(plain(line), highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text that rich does not read as markup."""
    from rich.markup import escape

    return escape(text)


def main() -> None:
    """Run a verb; whatever the user got wrong is one sentence on standard error and exit code 2."""
    try:
        code = app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        code = _complain(" ".join(str(error).split()).removesuffix(".") + " (see orthoscope --help)")
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (ValueError, OSError, RuntimeError, ModuleNotFoundError) as error:
        if "--traceback" in sys.argv:
            raise
        code = _complain(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _complain(sentence: str) -> int:
    print(f"orthoscope: {sentence}", file=sys.stderr)
    return BAD_INPUT
