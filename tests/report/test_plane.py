import random

from orthoscope.report.labels import Box, _box, place
from orthoscope.report.plane import plane, unplaced
from orthoscope.report.scales import Scale, decades, round_steps, tick_label, whole_decades
from report.handmade import document

FRAME = Box(0, 0, 600, 300)


def test_labels_cover_neither_each_other_nor_a_point():
    source = random.Random(0)
    points = [(source.uniform(20, 580), source.uniform(20, 280)) for _ in range(10)]
    points += [points[0]] * 3  # the same network four times
    texts = ["a network with a name"] * len(points)
    boxes = [_box(label, text) for label, text in zip(place(points, texts, FRAME), texts, strict=True)]
    for index, box in enumerate(boxes):
        assert box.within(FRAME)
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert not any(box.overlaps(Box(x - 7, y - 7, x + 7, y + 7)) for x, y in points)


def test_a_label_without_room_stays_beside_its_point():
    (label,) = place([(300.0, 150.0)], ["x" * 1000], FRAME)
    assert not label.moved


def test_a_label_leaves_marks_without_a_label_in_sight():
    mark = (270.0, 150.0)  # where the label would be: left of a point in the right half
    (free,) = place([(301.0, 150.0)], ["name"], FRAME)
    (label,) = place([(301.0, 150.0)], ["name"], FRAME, [mark])
    assert _box(free, "name").overlaps(Box(263, 143, 277, 157))
    assert not _box(label, "name").overlaps(Box(263, 143, 277, 157))


def test_the_plane_shows_only_networks_that_have_both_numbers():
    documents = [document(name="placed"), document(name="lost", gap=None)]
    assert "lost" not in plane(documents)
    assert "placed" in plane(documents)
    assert unplaced(documents) == ["lost"]


def test_many_networks_are_numbered():
    drawn = plane([document(name="long name", gap=index / 40) for index in range(40)])
    assert "long name" not in drawn
    assert ">40</text>" in drawn


def test_the_slope_axis_is_symmetric():
    steep = {"value": -3.0, "standard_error": 0.5, "layers": 3, "unit": ""}
    drawn = plane([document(slope=steep)])
    assert ">−2</text>" in drawn
    assert ">2</text>" in drawn


def test_ticks_are_few_and_round():
    for high in (0.013, 1, 7, 399, 2000):
        assert 3 <= len(round_steps(0, high)) <= 6
    assert decades(1e-3, 1e3) == [1e-3, 1e-1, 1e1, 1e3]
    assert len(decades(1e-300, 1e300)) <= 6
    assert [tick_label(value) for value in (0, 0.5, -0.2, 1000, 1e-6)] == ["0", "0.5", "−0.2", "1000", "10⁻⁶"]


def test_a_logarithmic_scale_is_undefined_where_logarithms_are():
    scale = Scale(*whole_decades([0.0, None, 1.0]), 0, 100, logarithmic=True)
    assert (scale.low, scale.high) == (0.1, 10.0)
    assert scale(1.0) == 50
    assert scale(0.0) is None
    assert scale(None) is None
