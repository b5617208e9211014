"""Arguments of a wrong type: one line for each, read by `test_muon_refusals`."""

from collections.abc import Callable

from torch import nn

from orthoscope.optim import MatrixView, Muon, project_

MISTAKES: list[Callable[[], object]] = [
    lambda: MatrixView(parts=2.0),
    lambda: MatrixView(groups="2", transposed=True),
    lambda: Muon(nn.Linear(4, 4).parameters(), steps=2.5),
    lambda: Muon(nn.Linear(4, 4).parameters(), dtype="float32"),
    lambda: project_(nn.Linear(4, 4)),
]

if __name__ == "__main__":
    for mistake in MISTAKES:
        try:
            mistake()
        except (TypeError, ValueError) as reason:
            print(f"{type(reason).__name__}: {reason}")
