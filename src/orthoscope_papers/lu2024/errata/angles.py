"""Lu et al. (2024), appendix, Theorem 2: what an optimizer does to the angles between weight vectors."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from orthoscope_papers.errata import Erratum, Statement

Vector = Float[Tensor, "units"]

ROUNDING = 1e-12
# Adam's usual constants, and one learning rate for both optimizers.
MEAN_DECAY, SQUARE_DECAY, RATE = 0.9, 0.999, 0.1


def _vector(*entries: int | float) -> Vector:
    return torch.tensor(entries, dtype=torch.float64)


def _vectors(generator: torch.Generator, count: int) -> Float[Tensor, "count units"]:
    units = int(torch.randint(1, 9, (), generator=generator))
    return torch.randn(count, units, generator=generator, dtype=torch.float64)


# A common translation.


def _translation_keeps_angles() -> Statement:
    one, other, step = _vector(1, 0), _vector(0, 1), _vector(1, 1)
    before, after = cosine_similarity(one, other, dim=0), cosine_similarity(one + step, other + step, dim=0)
    return Statement(float(after), "=", float(before), ROUNDING)


def _angle_between_differences(corner: Vector, one: Vector, other: Vector, step: Vector) -> Statement:
    """The cosine at a corner of the triangle by inner products before, and by its sides (law of cosines) after."""
    before = (one - corner) @ (other - corner)
    moved = [point + step for point in (corner, one, other)]
    near, far, opposite = ((moved[i] - moved[j]).square().sum() for i, j in ((0, 1), (0, 2), (1, 2)))
    scale = float((near * far).sqrt())
    return Statement(float(before) / scale, "=", float(near + far - opposite) / (2 * scale), ROUNDING / min(1.0, scale))


def _differences_at_case() -> Statement:
    return _angle_between_differences(_vector(0, 0), _vector(1, 0), _vector(0, 1), _vector(1, 1))


def _differences_at_random(generator: torch.Generator) -> Statement:
    corner, one, other, step = _vectors(generator, 4)
    return _angle_between_differences(corner, one, other, step)


# Adam's moments after equal gradients.


def _moment_distance(one: Vector, other: Vector, gradient: Vector) -> float:
    moved = [MEAN_DECAY * moment + (1 - MEAN_DECAY) * gradient for moment in (one, other)]
    return float((moved[0] - moved[1]).norm())


def _equal_gradients_equal_moments() -> Statement:
    return Statement(_moment_distance(_vector(1, 0), _vector(0, 1), _vector(1, 1)), "=", 0.0, ROUNDING)


def _moments_keep_their_past(one: Vector, other: Vector, gradient: Vector) -> Statement:
    expected = MEAN_DECAY * float((one - other).norm())
    return Statement(_moment_distance(one, other, gradient), "=", expected, ROUNDING)


def _moments_at_case() -> Statement:
    return _moments_keep_their_past(_vector(1, 0), _vector(0, 1), _vector(1, 1))


def _moments_at_random(generator: torch.Generator) -> Statement:
    one, other, gradient = _vectors(generator, 3)
    return _moments_keep_their_past(one, other, gradient)


# Squares of two gradients.


def _squares_differ_more() -> Statement:
    one, other = _vector(0.1, 0.2), _vector(0.2, 0.1)
    return Statement(float((one - other).norm()), "<=", float((one**2 - other**2).norm()))


def _squares_differ_at_most(one: Vector, other: Vector) -> Statement:
    largest_sum = float((one + other).abs().max())
    return Statement(float((one**2 - other**2).norm()), "<=", largest_sum * float((one - other).norm()), ROUNDING)


def _squares_at_case() -> Statement:
    return _squares_differ_at_most(_vector(0.1, 0.2), _vector(0.2, 0.1))


def _squares_at_random(generator: torch.Generator) -> Statement:
    one, other = _vectors(generator, 2)
    return _squares_differ_at_most(one, other)


# The first steps of Adam and of gradient descent.


def _first_adam_step(gradient: Vector) -> Vector:
    mean, square = (1 - MEAN_DECAY) * gradient, (1 - SQUARE_DECAY) * gradient**2
    correction = (1 - SQUARE_DECAY) ** 0.5 / (1 - MEAN_DECAY)
    return RATE * mean / square.sqrt() * correction


def _adam_differs_more() -> Statement:
    one, other = _vector(2, 3), _vector(4, 1)
    adam = float((_first_adam_step(one) - _first_adam_step(other)).norm())
    return Statement(RATE * float((one - other).norm()), "<=", adam, ROUNDING)


def _adam_differs_by_signs(one: Vector, other: Vector) -> Statement:
    adam = float((_first_adam_step(one) - _first_adam_step(other)).norm())
    return Statement(adam, "=", RATE * float((one.sign() - other.sign()).norm()), ROUNDING)


def _adam_at_case() -> Statement:
    return _adam_differs_by_signs(_vector(2, 3), _vector(4, 1))


def _adam_at_random(generator: torch.Generator) -> Statement:
    one, other = _vectors(generator, 2)
    return _adam_differs_by_signs(one, other)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="lu2024-theorem-2-translation",
        source="lu2024",
        where="Theorem 2, proof, after equation (2)",
        printed="when ∇w_i = ∇w_j, w_i and w_j move in the same direction. Therefore, the angle between vectors "
        "remains unchanged under translation, and in this case, the translation transformation is a conformal mapping",
        case="w_i = (1, 0), w_j = (0, 1), both moved by (1, 1): the cosine goes from 0 to 0.8",
        corrected="a common translation keeps the angles between differences, (w_i - w_k, w_j - w_k), not the angle "
        "between w_i and w_j",
        why="angles between weight vectors are seen from the origin, which does not move along",
        printed_at_case=_translation_keeps_angles,
        corrected_at_case=_differences_at_case,
        corrected_at_random=_differences_at_random,
    ),
    Erratum(
        key="lu2024-theorem-2-moments",
        source="lu2024",
        where="Theorem 2, proof, after equation (3)",
        printed="m_{i,t+1} = m_{j,t+1} and v_{i,t+1} = v_{j,t+1} when ∇w_{i,t} = ∇w_{j,t}, so the Adam is also a "
        "conformal mapping",
        case="β₁ = 0.9, m_{i,t} = (1, 0), m_{j,t} = (0, 1), equal gradients (1, 1)",
        corrected="when ∇w_{i,t} = ∇w_{j,t}, ‖m_{i,t+1} - m_{j,t+1}‖ = β₁ ‖m_{i,t} - m_{j,t}‖: equal gradients at one "
        "step make the moments equal only if they were",
        why="the moments of equation (3) remember all earlier gradients",
        printed_at_case=_equal_gradients_equal_moments,
        corrected_at_case=_moments_at_case,
        corrected_at_random=_moments_at_random,
    ),
    Erratum(
        key="lu2024-theorem-2-squares",
        source="lu2024",
        where="Theorem 2, proof, last paragraph",
        printed="‖∇w_i ⊙ ∇w_i - ∇w_j ⊙ ∇w_j‖₂ ≥ κ, κ = ‖∇w_i - ∇w_j‖₂",
        case="∇w_i = (0.1, 0.2), ∇w_j = (0.2, 0.1): the left side is 0.3 κ",
        corrected="‖∇w_i ⊙ ∇w_i - ∇w_j ⊙ ∇w_j‖ = ‖(∇w_i + ∇w_j) ⊙ (∇w_i - ∇w_j)‖ ≤ κ max_k |∇w_i + ∇w_j|_k, much less "
        "than κ when gradients are small",
        why="squaring shrinks numbers below one half in distance; the inequality has no scale",
        printed_at_case=_squares_differ_more,
        corrected_at_case=_squares_at_case,
        corrected_at_random=_squares_at_random,
    ),
    Erratum(
        key="lu2024-theorem-2-adam-steps",
        source="lu2024",
        where="Theorem 2, proof, last paragraph",
        printed="Therefore, the degree of difference in translation vectors between w_i and w_j will be significantly "
        "greater than η κ [with Adam than with SGD]",
        case="first step, learning rate 0.1 for both, gradients (2, 3) and (4, 1): Adam moves both vectors equally",
        corrected="the first step of Adam (ε = 0) is α sign ∇w, so two of them differ by α ‖sign ∇w_i - sign ∇w_j‖, "
        "whatever κ is",
        why="the second moment is in the denominator: it removes the scale of the gradient",
        printed_at_case=_adam_differs_more,
        corrected_at_case=_adam_at_case,
        corrected_at_random=_adam_at_random,
    ),
)
