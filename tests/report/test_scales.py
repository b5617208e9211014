from orthoscope.report.charts import Scale, decades, round_steps, tick_label, whole_decades


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
