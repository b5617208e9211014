"""An erratum: a printed statement that is false, the case that refutes it, and the statement that is true."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True)
class Comparison:
    """A statement at one case, as numbers: `left ≤ right` or `left = right`, up to `tolerance`.

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
    """One false or misprinted statement. The three functions run: nothing here is taken on trust."""

    key: str  # short and unique: "joudaki2024-theorem-5.8"
    source: str  # key of the bibliography
    where: str  # "Theorem 5.8, equation (5.12)"
    printed: str  # the statement as printed, in plain text
    case: str  # the counterexample, in words
    corrected: str  # the statement that holds
    why: str  # what went wrong, in one sentence
    printed_at_case: Callable[[], Comparison]  # fails
    corrected_at_case: Callable[[], Comparison]  # holds
    corrected_at_random: Callable[[torch.Generator], Comparison]  # holds, for every draw of a case
    random_cases: int = 1000  # that the tests draw; fewer where a case takes a millisecond or more

    def row(self) -> dict[str, str]:
        """Everything as text, with both statements evaluated at the counterexample now."""
        texts = ("key", "source", "where", "printed", "case", "corrected", "why")
        return {name: getattr(self, name) for name in texts} | {
            "printed_at_case": str(self.printed_at_case()),
            "corrected_at_case": str(self.corrected_at_case()),
        }
