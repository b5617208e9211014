"""The gallery shows what variance cannot: sick networks that look healthy to it, and the other way round."""

import math

import pytest

from orthoscope.diagnosis.targets import GALLERY, NamedNetwork, symptoms_named
from orthoscope.findings import Symptom
from orthoscope.models import TargetError

pytestmark = pytest.mark.slow

BY_TITLE = {network.title: network for network in GALLERY}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_unit_variance_at_every_layer_hides_a_collapse(seed: int) -> None:
    diagnosis = BY_TITLE["ReLU 50, variance 1 everywhere"].diagnose(seed)
    hidden = [layer for layer in diagnosis.layers if layer.name.endswith("linear")]
    assert len(hidden) == 50
    # rms² = variance + mean², and the mean over units and samples is small.
    assert all(layer.rms == pytest.approx(1, abs=0.05) for layer in hidden)
    assert diagnosis.verdict == "SICK"
    assert {f.symptom for f in diagnosis.findings if f.severity == "SICK"} == {"collapse"}
    last = hidden[-1]
    assert (last.samples, last.units) == (100, 100)
    assert last.effective_rank < 2


def test_deep_batch_norm_explodes_at_the_rate_of_theory() -> None:
    diagnosis = BY_TITLE["batch norm 200, batch of 8"].diagnose()
    assert diagnosis.verdict == "SICK"
    assert diagnosis.symptoms == ("explode",)
    assert diagnosis.recording.samples == 8
    assert max(layer.depth or 0 for layer in diagnosis.layers) == 201
    assert diagnosis.slope == pytest.approx(0.5 * math.log(6 / 5), rel=0.15)


@pytest.mark.parametrize("title", ["tanh 50, gain 0.3, orthogonal", "tanh 50, orthogonal, batch norm"])
def test_orthogonal_tanh_with_gain_is_healthy(title: str) -> None:
    assert BY_TITLE[title].diagnose().verdict == "HEALTHY"


def test_no_two_networks_share_a_title_and_every_symptom_of_a_network_is_shown() -> None:
    assert len(BY_TITLE) == len(GALLERY)
    quick = ["sigmoid 20, Xavier weights", "batch norm 50, ReLU"]
    seen = {symptom for title in quick for symptom in BY_TITLE[title].diagnose().symptoms}
    assert seen == {"collapse", "vanish", "explode"}


def test_the_same_seed_gives_the_same_diagnosis() -> None:
    network = NamedNetwork("mlp(depth=5)", samples=10)
    assert network.diagnose(3).slope == network.diagnose(3).slope
    assert network.diagnose(3).slope != network.diagnose(4).slope


def test_a_network_that_fails_is_one_sentence() -> None:
    with pytest.raises(TargetError, match=r"fails on its batch with ValueError: this MLP takes samples of 7 features"):
        NamedNetwork("mlp(depth=2, in_features=7)", batch="references.broken:batch").diagnose()


def test_symptoms_are_read_by_name() -> None:
    assert symptoms_named("") == frozenset()
    assert symptoms_named("collapse, explode") == {Symptom.COLLAPSE, Symptom.EXPLODE}
    assert symptoms_named("degenerate-input") == symptoms_named("degenerate input") == {Symptom.DEGENERATE_INPUT}
    assert symptoms_named("any") == frozenset(Symptom)
    with pytest.raises(
        ValueError, match="'rot' is no symptom: choose from collapse, vanish, explode, degenerate-input"
    ):
        symptoms_named("rot")
