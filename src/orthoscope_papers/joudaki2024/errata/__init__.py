"""What is false as printed in Joudaki (2024)."""

from orthoscope_papers.joudaki2024.errata import (
    chain,
    gram,
    haar,
    haar_gradient,
    haar_proofs,
    isometry,
    kernel,
    kernel_proofs,
)

ERRATA = [
    *chain.ERRATA,
    *gram.ERRATA,
    *isometry.ERRATA,
    *kernel.ERRATA,
    *kernel_proofs.ERRATA,
    *haar.ERRATA,
    *gram.APPENDIX_ERRATA,
    *haar_proofs.ERRATA,
    *haar_gradient.ERRATA,
]

__all__ = ["ERRATA"]
