"""The unconstrained Jacobians model, by descent: at the exact optimum for every depth, width and decay tried."""

import math

import pytest
import torch

from orthoscope.metrics import residual_alignment
from orthoscope.probe import residual_jacobians
from orthoscope.theory import rotated_trace_supremum, unconstrained_jacobians_optimum
from orthoscope_papers.li2023 import theorem_3_3 as experiment
from orthoscope_papers.li2023.theorem_3_3 import Row, UnconstrainedJacobians
from papers.figures import drawn


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return experiment.run(experiment.QUICK)


def test_descent_ends_at_the_exact_optimum(rows: list[Row]) -> None:
    assert all(experiment.check(rows).values()), experiment.check(rows)
    assert {evidence.verdict for evidence in experiment.compare(rows)} == {"agrees"}
    drawn(experiment.plot(rows))


@pytest.mark.parametrize(
    "change",
    [
        {"objective": 1.0},
        {"first": 0.3},
        {"second": 1e-3},
        {"aligned": 0.99},
        {"head": 1.0},
    ],
)
def test_every_check_can_fail(rows: list[Row], change: dict[str, float]) -> None:
    broken = experiment.check([rows[0]._replace(**change), *rows[1:]])
    assert sum(not held for held in broken.values()) == 1


def test_no_check_survives_a_descent_that_was_stopped_early() -> None:
    generator = torch.Generator().manual_seed(0)
    model = UnconstrainedJacobians(depth=5, width=6, generator=generator)
    values = torch.linalg.svdvals(model.jacobians.detach())
    exact = unconstrained_jacobians_optimum(5, 0.02)
    stopped = [
        Row(5, 6, 0.02, 0, block + 1, *values[block, :2].tolist(), 0.5, 0.3, 1.0, exact.singular_value, exact.objective)
        for block in range(5)
    ]
    assert not any(experiment.check(stopped).values())
    assert "differs" in {evidence.verdict for evidence in experiment.compare(stopped)}


def test_the_trained_model_is_aligned_by_every_score_but_one_over_depth() -> None:
    """Equal singular values: exponent 0, not -1."""
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    example /= example.norm()
    model = experiment.descended(example, 5, 0.02, 0.1, generator)
    blocks = residual_jacobians(model, example)
    found = residual_alignment(blocks, blocks.path, classes=1)
    assert len(blocks) == 5
    assert found.misalignment.item() < 1e-6
    assert found.step_cosine.item() == pytest.approx(1, abs=1e-9)
    assert found.rank_ratio.max().item() < 1e-6
    assert found.law.exponent.item() == pytest.approx(0, abs=1e-6)


def test_the_logit_is_below_the_supremum_over_rotations_and_reaches_it_at_the_optimum() -> None:
    r"""$z = \operatorname{tr}(\Delta x\,w^\top\prod(I+J_i))$: the trace inequality bounds it."""
    generator = torch.Generator().manual_seed(1)
    example = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    example /= example.norm()

    def gap(model: UnconstrainedJacobians) -> tuple[float, float]:
        with torch.no_grad():
            outer = torch.outer(example[0], model.head)
            factors = torch.stack([outer, *(torch.eye(6, dtype=torch.float64) + model.jacobians).flip(0)])
            return float(model(example)), float(rotated_trace_supremum(factors))

    random = UnconstrainedJacobians(depth=5, width=6, weight_std=0.3, generator=generator)
    logit, bound = gap(random)
    assert logit < 0.9 * bound
    logit, bound = gap(experiment.descended(example, 5, 0.02, 0.1, generator))
    assert logit == pytest.approx(bound, rel=1e-6)
    assert math.isfinite(bound)
