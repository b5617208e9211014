"""The verb `orthoscope data`: the datasets that the papers measure, and how they are fetched."""

from collections.abc import Callable

from cyclopts import App

data = App(help="List the papers' datasets, or fetch one: orthoscope data get cifar10.")


@data.default
def list_data() -> int:
    """List the datasets: what they are, whether they are here, and how they are fetched."""
    from rich.console import Console
    from rich.table import Table

    from orthoscope.cli.app import plain
    from orthoscope_papers.image_sets import available, data_directory

    table = Table("name", "what", "train + test", "shape", "here", "comes from", box=None, header_style="bold")
    for entry in available():
        samples = " + ".join(str(count) for count in entry.samples.values())
        shape = "x".join(map(str, entry.shape))
        table.add_row(entry.name, entry.description, samples, shape, "yes" if entry.present else "no", entry.source)
    console = Console()
    console.print(table)
    console.print(
        plain(f"orthoscope data get NAME fetches one into {data_directory()}"), highlight=False, soft_wrap=True
    )
    return 0


@data.command
def get(*names: str) -> int:
    """Fetch datasets by name, check them, and keep them in the data directory.

    Parameters
    ----------
    names
        mnist, fashion-mnist, cifar10.
    """
    from orthoscope.cli.app import progress_bar
    from orthoscope_papers.image_sets import available
    from orthoscope_papers.image_sets import get as fetch

    if not names:
        raise ValueError(f"no dataset was named: choose from {', '.join(entry.name for entry in available())}")
    for name in names:
        with progress_bar() as (advance, _):

            def progress(done: int, total: int, what: str, advance: Callable[[float, str], None] = advance) -> None:
                advance(done / total if total else 0.0, what)

            folder = fetch(name, progress=progress)
        print(f"{name}: {folder}")
    return 0
