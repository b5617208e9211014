"""Orthogonal weights beside the peers: maps, optimizer steps, penalties. Writes the page and the numbers behind it.

`make bench-weights` takes about ten minutes on two cores, which should have nothing else to do.
"""

from dataclasses import asdict

import weight_maps
import weight_penalties
import weight_steps
from record import record
from weights_page import page


def main() -> None:
    parts = {
        "penalties": lambda: [asdict(row) for row in weight_penalties.table()],
        "steps": lambda: [asdict(row) for row in weight_steps.table()],
        "maps": lambda: [asdict(row) for row in weight_maps.table()],
    }
    record("weights", __doc__, parts, page)


if __name__ == "__main__":
    main()
