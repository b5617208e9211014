"""Orthogonal weights beside the peers: maps, optimizer steps, penalties. Writes the page and the numbers behind it.

`make bench-weights` takes about fifteen minutes on two cores, which should have nothing else to do.
"""

from dataclasses import asdict

import weight_maps
import weight_penalties
from processes import in_processes
from record import record
from weights_page import page

STEP_PROCESSES = 5


def main() -> None:
    parts = {
        "penalties": lambda: [asdict(row) for row in weight_penalties.table()],
        "steps": lambda: in_processes("weight_steps", STEP_PROCESSES),
        "maps": lambda: [asdict(row) for row in weight_maps.table()],
    }
    record("weights", __doc__, parts, page)


if __name__ == "__main__":
    main()
