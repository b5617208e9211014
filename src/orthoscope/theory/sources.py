"""Bibliography, and the decorator that attaches source and hypotheses, as data, to a function that predicts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

BIBLIOGRAPHY: dict[str, str] = {
    "orthoscope": "derived for this library and checked numerically; the docstring has the argument",
    "lu2024": "Lu et al., The Orthogonality of Weight Vectors: the Secret Key to Normalization and Residual "
    "Connections (2024), appendix",
    "ju2025": "Ju, Orthogonality in Neural Networks: Weights and Gradients, slides, Uppsala University (2025)",
    "li2023": "Li & Papyan, Residual Alignment: Uncovering the Mechanisms of Residual Networks (NeurIPS 2023), "
    "appendix",
    "daneshmand2021": "Daneshmand, Joudaki & Bach, Batch Normalization Orthogonalizes Representations in Deep "
    "Random Networks (NeurIPS 2021)",
    "joudaki2024": "Joudaki, On the theory of deep random neural networks, doctoral thesis (2024)",
    "cho2009": "Cho & Saul, Kernel Methods for Deep Learning (NeurIPS 2009)",
    "collins2006": "Collins & Śniady, Integration with respect to the Haar measure on unitary, orthogonal and "
    "symplectic group (Comm. Math. Phys. 264, 2006)",
    "newman1986": "Newman, The distribution of Lyapunov exponents: exact results for random matrices "
    "(Comm. Math. Phys. 103, 1986)",
    "poole2016": "Poole et al., Exponential expressivity in deep neural networks through transient chaos "
    "(NeurIPS 2016)",
    "schoenholz2017": "Schoenholz et al., Deep information propagation (ICLR 2017)",
    "martens2021": "Martens et al., Rapid training of deep neural networks without skip connections or normalization "
    "layers using Deep Kernel Shaping (2021)",
    "zhang2022": "Zhang, Botev & Martens, Deep Learning without Shortcuts: Shaping the Kernel with Tailored Rectifiers "
    "(ICLR 2022)",
    "yang2019": "Yang et al., A mean field theory of batch normalization (ICLR 2019)",
    "miranda1993": "Miranda & Thompson, A trace inequality with a subtracted term (Linear Algebra Appl. 185, 1993)",
}

Predictor = TypeVar("Predictor", bound=Callable[..., Any])


@dataclass(frozen=True)
class Source:
    """The statement that a prediction is, and its hypotheses.

    Attributes:
        key: Of the bibliography.
        where: Theorem, equation or section; "(corrected)" where the printed statement is false.
        assumes: The hypotheses, in words.
    """

    key: str
    where: str
    assumes: str

    def __str__(self) -> str:
        return f"{self.key}, {self.where}"


def source(key: str, where: str, *, assumes: str) -> Callable[[Predictor], Predictor]:
    """Attach a `Source` to a function or class as its attribute `source`."""
    if key not in BIBLIOGRAPHY:
        raise ValueError(f"unknown source {key!r}: add it to the bibliography")

    def attach(predictor: Predictor) -> Predictor:
        predictor.source = Source(key, where, assumes)  # type: ignore[attr-defined]
        return predictor

    return attach


def source_of(predictor: Callable[..., Any]) -> Source:
    """The source of a predictor, of the classes and functions of `orthoscope.theory`.

    Args:
        predictor: A function or class of `orthoscope.theory`.
    """
    found = getattr(predictor, "source", None)
    if not isinstance(found, Source):
        raise ValueError(f"{predictor!r} is not a predictor: it carries no source")
    return found
