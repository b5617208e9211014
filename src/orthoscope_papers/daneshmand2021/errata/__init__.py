"""What is false as printed in Daneshmand, Joudaki & Bach (2021)."""

from orthoscope_papers.daneshmand2021.errata import depth, iterative, proofs, width

ERRATA = [
    *width.ERRATA,
    *depth.ERRATA,
    *iterative.ERRATA,
    *proofs.ERRATA,
]

__all__ = ["ERRATA"]
