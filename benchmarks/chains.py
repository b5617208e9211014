"""Many random networks at once, beside loops over networks and layers. Writes the page and the numbers behind it.

`make bench-chains` takes about three minutes on two cores, which should have nothing else to do.
"""

from dataclasses import asdict

import chains_figures
import chains_growth
from chains_page import page
from record import record


def figures() -> list[dict[str, object]]:
    rows = [*chains_figures.figure_2(), *chains_figures.figure_6(), *chains_figures.gradients()]
    return [asdict(row) for row in rows]


def main() -> None:
    parts = {"figures": figures, "growth": lambda: [asdict(row) for row in chains_growth.table()]}
    record("chains", __doc__, parts, page)


if __name__ == "__main__":
    main()
