import re

import pytest

from orthoscope.report.document import Layer, from_data
from orthoscope.report.folding import Fold, folded
from report import handmade


def layers_of(rows):
    return [from_data(Layer, row) for row in rows]


def layer(name):
    return from_data(Layer, handmade.layer(name))


def sequential(depth):
    return layers_of(handmade.sequential(depth))


def transformer(blocks):
    return layers_of(handmade.transformer(blocks))


def undefined_layer(name):
    return from_data(Layer, handmade.undefined_layer(name))


NETWORKS = {
    "empty": [],
    "one layer": [layer("0")],
    "sequential": sequential(500),
    "transformer": transformer(80),
    "no two alike": [layer(chr(97 + index % 26) * (index // 26 + 1)) for index in range(300)],
    "a dead stretch": [*sequential(20), *(undefined_layer(str(n)) for n in range(40, 60)), *sequential(20)],
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("keep", [(), (0,), (7, 8, 40)])
def test_every_layer_is_shown_or_counted_once_and_in_order(name, keep):
    layers = NETWORKS[name]
    covered = []
    for row in folded(layers, keep):
        covered += range(row.start, row.stop) if isinstance(row, Fold) else [row]
    assert covered == list(range(len(layers)))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_thousand_layers_fit_on_one_screen_with_first_last_and_kept_ones(name):
    layers = NETWORKS[name]
    keep = [index for index in (17, 29) if index < len(layers)]
    rows = folded(layers, keep)
    assert len(rows) <= 31
    shown = [row for row in rows if isinstance(row, int)]
    assert set(keep) <= set(shown)
    if layers:
        assert shown[0] == 0
        assert shown[-1] == len(layers) - 1


def test_a_run_is_first_fold_last():
    assert folded(sequential(500)) == [0, Fold(1, 999), 999]


def test_neighbors_of_a_kept_layer_are_shown():
    assert folded(sequential(50), [40]) == [0, Fold(1, 39), 39, 40, 41, Fold(42, 99), 99]


def test_a_repeated_block_is_shown_once():
    rows = folded(transformer(80))
    assert rows == [*range(7), Fold(7, 480), 480, 481]


def test_a_change_of_health_ends_a_run():
    layers = NETWORKS["a dead stretch"]
    rows = folded(layers)
    assert 39 in rows
    assert 40 in rows
    for row in rows:
        if isinstance(row, Fold):
            assert len({layers[index].status for index in range(row.start, row.stop)}) == 1


def test_short_networks_are_not_folded():
    assert folded(sequential(1)) == [0, 1]
    assert all(isinstance(row, int) for row in folded([layer(name) for name in "abcdefgh"]))


def test_what_is_folded_repeats_the_block_that_is_shown():
    layers = transformer(12)
    for row in folded(layers):
        if isinstance(row, Fold):
            patterns = [re.sub(r"\d+", "#", layers[index].name) for index in range(row.start, row.stop)]
            assert patterns[:-6] == patterns[6:]
