import pytest

from orthoscope.diagnosis import predict
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
