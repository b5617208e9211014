"""What is false as printed in Lu et al. (2024)."""

from orthoscope_papers.lu2024.errata import angles, gradients

ERRATA = [
    *angles.ERRATA,
    *gradients.ERRATA,
]

__all__ = ["ERRATA"]
