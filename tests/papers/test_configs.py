"""Configurations as plain JSON and back."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import pytest

from orthoscope_papers.experiments import parsed


@dataclass(frozen=True)
class Part:
    size: int = 3


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (16, 32)
    rates: tuple[float, ...] = (0.1, 1.0)
    pairs: tuple[tuple[str, int], ...] = (("a", 1),)
    norm: Literal["batch", "none"] = "none"
    centered: bool = True
    limit: float | None = None
    depth: int = 5
    name: str = "relu"
    part: Part = Part()


def again(config: Any) -> Any:
    return json.loads(json.dumps(asdict(config)))


@pytest.mark.parametrize(
    "config", [Config(), Config((), (2.0,), (), "batch", False, 1.5, 0, "", Part(7)), Config(limit=2.0)]
)
def test_a_configuration_survives_json(config: Config) -> None:
    returned = parsed(Config, again(config), "it")
    assert returned == config
    assert isinstance(returned.pairs, tuple)
    assert all(isinstance(pair, tuple) for pair in returned.pairs)


def test_a_whole_number_is_a_float_where_one_is_expected() -> None:
    returned = parsed(Config, {**again(Config()), "rates": [1, 2], "limit": 3}, "it")
    assert [type(rate) for rate in (*returned.rates, returned.limit)] == [float] * 3
    assert returned == replace(Config(), rates=(1.0, 2.0), limit=3.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"heights": [1]}, r"configuration of lu2024/table_2 has no field 'heights': it has widths, rates"),
        ({"depth": 5.5}, r"'depth' of lu2024/table_2 must be a whole number, got 5.5"),
        ({"depth": True}, r"'depth' of lu2024/table_2 must be a whole number, got True"),
        ({"centered": 1}, r"'centered' of .* must be true or false, got 1"),
        ({"widths": 16}, r"'widths' of .* must be a list, got 16"),
        ({"widths": [16, "32"]}, r"'widths' of lu2024/table_2, item 1 must be a whole number, got '32'"),
        ({"pairs": [["a"]]}, r"'pairs' of lu2024/table_2, item 0 must be a list of 2"),
        ({"norm": "layer"}, r"'norm' of .* must be one of 'batch', 'none', got 'layer'"),
        ({"limit": "high"}, r"'limit' of .* must be a number or .*, got 'high'"),
        ({"part": {"sizes": 3}}, r"'part' of lu2024/table_2 has no field 'sizes'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parsed(Config, {**again(Config()), **change}, "lu2024/table_2")


def test_a_missing_field_is_not_filled_in() -> None:
    given = again(Config())
    del given["norm"]
    with pytest.raises(ValueError, match=r"of lu2024/table_2 lacks the field 'norm': it was written by other code"):
        parsed(Config, given, "lu2024/table_2")
