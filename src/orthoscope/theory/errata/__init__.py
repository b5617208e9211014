"""Where the papers are wrong: every false statement, its counterexample and what holds instead, as data that runs."""

from orthoscope.theory.errata import (
    daneshmand2021,
    daneshmand2021_iterative,
    daneshmand2021_proofs,
    daneshmand2021_width,
    joudaki2024_chain,
    joudaki2024_gram,
    joudaki2024_gram_proofs,
    joudaki2024_haar,
    joudaki2024_haar_gradient,
    joudaki2024_haar_proofs,
    joudaki2024_isometry,
    joudaki2024_kernel,
    joudaki2024_kernel_proofs,
    joudaki2024_ranks,
    ju2025,
    ju2025_muon,
    li2023,
    lu2024,
    lu2024_gradients,
    lu2024_normalisation,
)
from orthoscope.theory.errata.record import Comparison, Erratum

# By source, in the order of the bibliography; within a source by chapter, proofs in the appendix after the text.
errata: list[Erratum] = [
    *lu2024.ERRATA,
    *lu2024_normalisation.ERRATA,
    *lu2024_gradients.ERRATA,
    *ju2025.ERRATA,
    *ju2025_muon.ERRATA,
    *li2023.ERRATA,
    *daneshmand2021_width.ERRATA,
    *daneshmand2021.ERRATA,
    *daneshmand2021_iterative.ERRATA,
    *daneshmand2021_proofs.ERRATA,
    *joudaki2024_chain.ERRATA,
    *joudaki2024_gram.ERRATA,
    *joudaki2024_isometry.ERRATA,
    *joudaki2024_kernel.ERRATA,
    *joudaki2024_kernel_proofs.ERRATA,
    *joudaki2024_haar.ERRATA,
    *joudaki2024_gram_proofs.ERRATA,
    *joudaki2024_haar_proofs.ERRATA,
    *joudaki2024_haar_gradient.ERRATA,
    *joudaki2024_ranks.ERRATA,
]

__all__ = ["Comparison", "Erratum", "errata"]
