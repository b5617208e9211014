"""An erratum: a printed statement that is false, a counterexample, and the statement that holds instead.

Errata are code: `orthoscope errata` evaluates the printed and the corrected statement at the counterexample, and the
tests draw further cases of the corrected one. Those of a paper are `ERRATA` of `<bibkey>/errata`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True)
class Statement:
    """An inequality or equation evaluated at one case: `left ≤ right` or `left = right`, up to `tolerance`.

    A tolerance covers round-off, quadrature or the standard error of a sampled mean, and is much
    smaller than the failure it must not hide.
    """

    left: float
    relation: Literal["<=", "="]
    right: float
    tolerance: float = 0.0

    @property
    def excess(self) -> float:
        """By how much the statement fails, beyond the tolerance; at most 0 where it holds."""
        distance = self.left - self.right
        return (abs(distance) if self.relation == "=" else distance) - self.tolerance

    @property
    def holds(self) -> bool:
        return self.excess <= 0

    def __str__(self) -> str:
        sign = "≤" if self.relation == "<=" else "="
        return f"{self.left:.6g} {sign} {self.right:.6g}: {'holds' if self.holds else 'fails'}"


@dataclass(frozen=True)
class Erratum:
    """A printed statement that is false or misprinted, with its correction; both are functions that can be run."""

    key: str  # short and unique: "joudaki2024-theorem-5.8"
    source: str  # key of the bibliography
    where: str  # "Theorem 5.8, equation (5.12)"
    printed: str  # the statement as printed, in plain text
    case: str  # the counterexample, in words
    corrected: str  # the statement that holds
    why: str  # what went wrong, in one sentence
    printed_at_case: Callable[[], Statement]  # fails
    corrected_at_case: Callable[[], Statement]  # holds
    corrected_at_random: Callable[[torch.Generator], Statement]  # holds, for every draw of a case
    random_cases: int = 1000  # drawn by the tests; fewer where a case takes a millisecond or more

    def row(self) -> dict[str, str]:
        """Return all texts, and both statements evaluated at the counterexample now."""
        texts = ("key", "source", "where", "printed", "case", "corrected", "why")
        return {name: getattr(self, name) for name in texts} | {
            "printed_at_case": str(self.printed_at_case()),
            "corrected_at_case": str(self.corrected_at_case()),
        }


def all_errata() -> list[Erratum]:
    """Return every erratum, in the order of the bibliography, and within a source by chapter."""
    from orthoscope_papers.daneshmand2021.errata import ERRATA as DANESHMAND2021
    from orthoscope_papers.joudaki2024.errata import ERRATA as JOUDAKI2024
    from orthoscope_papers.ju2025.errata import ERRATA as JU2025
    from orthoscope_papers.li2023.errata import ERRATA as LI2023
    from orthoscope_papers.lu2024.errata import ERRATA as LU2024

    return [*LU2024, *JU2025, *LI2023, *DANESHMAND2021, *JOUDAKI2024]
