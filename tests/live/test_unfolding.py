import pytest

from orthoscope.diagnosis import predict
from orthoscope.findings import State
from orthoscope.live import _work as unfolding
from orthoscope.live._work import Unfoldings

TARGET = "mlp(depth={}, width=32, activation=tanh)"


@pytest.fixture
def counted(monkeypatch):
    """How many layers are worked out."""
    done = []

    def counting(*arguments):
        for layer in real(*arguments):
            done.append(layer)
            yield layer

    real = unfolding.propagated_layers
    monkeypatch.setattr(unfolding, "propagated_layers", counting)
    return done


def test_layers_are_worked_out_once_whatever_the_depth(counted):
    unfoldings = Unfoldings()
    list(unfoldings.rows(TARGET.format(5), 8))
    assert len(counted) == 5
    list(unfoldings.rows(TARGET.format(3), 8))
    assert len(counted) == 5
    list(unfoldings.rows(TARGET.format(6), 8))
    assert len(counted) == 6
    list(unfoldings.rows(TARGET.format(2), 9))  # another batch is another path
    assert len(counted) == 8


def test_what_is_no_longer_wanted_stops(counted):
    rows = list(Unfoldings().rows(TARGET.format(50), 8, wanted=lambda: len(counted) < 4))
    assert len(counted) == 4
    assert [row["depth"] for row in rows] == [1, 2]  # every second, and no end


@pytest.mark.slow
def test_the_end_is_that_of_a_prediction():
    *rows, end = Unfoldings().rows(TARGET.format(60), 8)
    whole = predict(TARGET.format(60), samples=8).document()["depths"]
    assert len(rows) < 60
    for row in rows:
        assert row["overlap"] == pytest.approx(whole[row["depth"] - 1]["overlap"])
    assert rows[-1]["depth"] == 60
    assert end["verdict"] == whole[-1]["verdict"]


@pytest.mark.slow
def test_where_theory_ends_it_says_so():
    rows = list(Unfoldings().rows("mlp(depth=300, width=32, activation=identity, weight_gain=1e-3)", 8))
    lost = next(row for row in rows if "lost" in row)
    assert 0 < lost["layers"] < 300
    assert "end" not in lost
    assert rows[-1]["verdict"] in ("AT RISK", "SICK")


@pytest.mark.parametrize(
    "network",
    [
        "mlp(depth={}, width=64, activation=relu)",
        "mlp(depth={}, width=64, activation=tanh, norm=layer)",
        "mlp(depth={}, width=64, activation=tanh, weight_gain=1.3)",
    ],
)
def test_the_deepest_healthy_network_is_that_of_a_prediction(network):
    whole = predict(network.format("1..120"), samples=32)
    reach = Unfoldings().reach(network.format(4), 32)
    assert reach["deepest"] == whole.deepest
    assert 0 < whole.deepest < 120, "the test must have a depth to find"
    beyond = whole.depths[whole.deepest].findings
    assert reach["symptoms"] == list(dict.fromkeys(str(one.symptom) for one in beyond if one.state is State.FOUND))


def test_a_network_that_trains_at_every_depth_is_said_to_train_as_far_as_was_searched():
    reach = Unfoldings().reach("mlp(depth=3, width=64, activation=tanh, init=orthogonal, gain=0.1)", 32)
    assert reach == {"deepest": 300, "searched": 300, "symptoms": []}


def test_a_search_that_is_no_longer_wanted_ends(counted):
    assert Unfoldings().reach(TARGET.format(2), 8, wanted=lambda: len(counted) < 3) is None
    assert len(counted) == 3
