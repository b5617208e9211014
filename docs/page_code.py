"""Code of README and docs: read from the pages, run in the order of a page, its output written below it.

`make page-outputs` writes the output of every block that is followed by one; tests/test_documents.py runs every block
and compares. In a page:

    <!-- not run: reason -->     before a block: it is not run
    ```python ... ```            runs with the names that earlier blocks of the page left
    ```sh ... ```                lines that begin with `orthoscope` run; `# exit code 1` after one says how it ends
    <!-- output -->              after a block, before a block of text: what that code prints
    <!-- output: 9 lines -->     the same, the first 9 lines of it
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orthoscope import cli
from orthoscope.files import replace

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COLUMNS = "100"  # width of the terminal

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```\n?"
    r"(?:\n<!-- output(?:: (?P<lines>\d+) lines)? -->\n```text\n(?P<output>.*?)^```)?",
    re.DOTALL | re.MULTILINE,
)
_EXIT_CODE = re.compile(r"# exit code (\d)")
_NUMBER = re.compile(r"(?<![\w.])[-+×]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_POWER = re.compile(r"10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")  # of any exponent: rounding may change it by one
_TOLERANCE = 0.2  # relative: processors round differently, and some numbers are differences of rounded ones


@dataclass(frozen=True)
class Command:
    """A line that calls orthoscope: its arguments, and the exit code that the page states."""

    arguments: list[str]
    code: int = 0


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    code: str
    not_run: str | None
    output: str | None
    lines: int | None  # how many lines of the output are shown; None for all
    place: tuple[int, int]  # of `output` in the page

    @property
    def commands(self) -> list[Command]:
        """Lines that call orthoscope."""
        lines = [line for line in self.code.splitlines() if line.startswith("orthoscope ")]
        codes = [_EXIT_CODE.search(line) for line in lines]
        words = [shlex.split(line, comments=True)[1:] for line in lines]
        return [Command(one, int(code[1]) if code else 0) for one, code in zip(words, codes, strict=True)]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code of a page, in order."""
    return [
        Block(
            page.name,
            found["language"],
            found["code"],
            found["reason"],
            found["output"],
            int(found["lines"]) if found["lines"] else None,
            found.span("output"),
        )
        for found in _BLOCK.finditer(page.read_text())
    ]


def run(page: Path, names: dict[str, Any]) -> Iterator[tuple[Block, str]]:
    """Run a page in the current folder, as a script with these names; yield every block that is run, and its output."""
    for block in blocks(page):
        if block.not_run is None and block.language in ("python", "sh"):
            with contextlib.redirect_stdout(io.StringIO()) as shown, _terminal():
                if block.language == "python":
                    _run_python(block, names)
                for command in block.commands:
                    _run_command(command)
            yield block, _tidy(shown.getvalue(), block.lines)


def _run_python(block: Block, names: dict[str, Any]) -> None:
    """Execute the block; one that begins with the name of a file is also written to it and run as a script."""
    file = re.match(r'"""(\w+\.py)"""', block.code)
    if file is not None:
        Path(file[1]).write_text(block.code)
        subprocess.run([sys.executable, file[1]], check=True, env=os.environ, capture_output=True, timeout=120)
    exec(compile(block.code, block.page, "exec"), names)


def _run_command(command: Command) -> None:
    with contextlib.redirect_stderr(io.StringIO()):
        code = cli.app(command.arguments, exit_on_error=False, print_error=False, result_action="return_value")
    if code != command.code:
        raise RuntimeError(f"{command.arguments} ended with exit code {code}, the page says {command.code}")


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """A terminal of fixed width without colors."""
    before = dict(os.environ)
    os.environ.update(COLUMNS=COLUMNS, NO_COLOR="1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def same(shown: str, printed: str) -> bool:
    """Whether two outputs have the same words, and numbers within `_TOLERANCE`, times and spaces aside."""
    shown, printed = _POWER.sub("power", shown), _POWER.sub("power", printed)
    if _NUMBER.sub("#", shown).split() != _NUMBER.sub("#", printed).split():
        return False
    pairs = zip(_numbers(shown), _numbers(printed), strict=True)
    return all(abs(one - other) <= _TOLERANCE * max(abs(one), abs(other)) + 0.02 for one, other in pairs)


def _numbers(text: str) -> list[float]:
    without_times = re.sub(r"[\d.]+ m?s\b", "", text)
    return [float(found.replace(",", "").lstrip("×")) for found in _NUMBER.findall(without_times)]


def _tidy(output: str, lines: int | None) -> str:
    """Output as pages show it: its first lines, without empty lines at either end or spaces at the end of a line."""
    kept = [line.rstrip() for line in output.strip("\n").splitlines()][:lines]
    return "\n".join(kept).strip("\n") + "\n"


def main(*names: str) -> None:
    """Write the outputs of the pages of these names, by default of all."""
    for page in PAGES:
        if (names and page.name not in names) or not any(block.output is not None for block in blocks(page)):
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            sys.path.insert(0, folder)
            ran = list(run(page, {"__name__": "page"}))
            sys.path.remove(folder)
        text = page.read_text()
        for block, printed in reversed(ran):
            if block.output is not None and not same(block.output, printed):
                text = text[: block.place[0]] + printed + text[block.place[1] :]
        replace(page, text)
        print(f"wrote the outputs of {page.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
