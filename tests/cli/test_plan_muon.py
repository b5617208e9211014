"""`orthoscope plan-muon` as a user writes it."""

import json
import re

import pytest
import torch

from cli.process import orthoscope
from orthoscope.cli.plan_muon import floating_type, layouts_with_shards, parsed_shapes, plan_muon
from orthoscope.optim.muon.cost import model_shapes, muon_cost


def test_the_help_shows_a_list_of_shapes_that_can_be_parsed() -> None:
    shown = orthoscope("plan-muon", "--help")
    assert shown.returncode == 0
    assert "4096x4096*128,11008x4096*64,4096x11008*32" in shown.stdout
    example = re.search(r"such as (\S+)\. ", shown.stdout)
    assert example is not None
    assert len(parsed_shapes(example[1])) == 128 + 64 + 32, "what it shows can be typed"


def test_upper_case_and_short_names_are_accepted() -> None:
    assert model_shapes("7B") == model_shapes("7b")
    assert parsed_shapes("16X16*2,8x4X3") == [(16, 16), (16, 16), (8, 4, 3)]
    short = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
    for name, full in short.items():
        assert floating_type(name) is floating_type(name.upper()) is floating_type(full) is getattr(torch, full)
    arguments = ("--shapes", "16X16*2", "--layout", "DDP", "--ranks", "2", "--dtype", "BF16", "--json", "-")
    plan = json.loads(orthoscope("plan-muon", *arguments).stdout)["plans"][0]
    assert (plan["layout"], plan["dtype"], plan["elements"]) == ("ddp", "bfloat16", 512)


def test_only_hsdp_has_shards() -> None:
    assert layouts_with_shards("ddp, hsdp", 4) == [("ddp", None), ("hsdp", 4)]
    assert layouts_with_shards("ddp,fsdp", None) == [("ddp", None), ("fsdp", None)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"layout": "hsdp"}, r"the layout hsdp needs --shards, .* a divisor of --ranks"),
        ({"layout": "fsdp,hsdp"}, r"the layout hsdp needs --shards"),
        ({"layout": "fsdp", "shards": 4}, r"--shards is for the layout hsdp, got it with fsdp: leave it out"),
        ({"shards": 4}, r"got it with ddp,fsdp"),
        (
            {"shapes": "8x8,99999999999x99999999999"},
            r"99999999999x99999999999 has more elements than a tensor can have",
        ),
        ({"dtype": "int8"}, r"unknown dtype 'int8': choose one of float32, .*, or fp32, bf16, fp16, fp64"),
    ],
)
def test_incompatible_options_are_refused_by_name(arguments: dict[str, str | int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan_muon(**{"shapes": "16x16", **arguments})  # type: ignore[arg-type]


def test_costs_are_exact_up_to_the_largest_tensor() -> None:
    sizes = (2**31, 2**31)  # 2^62 elements, whose bytes and flops no longer fit in 64 bits
    cost = muon_cost([sizes], layout="ddp", ranks=2)
    assert cost.elements == 2**62
    assert cost.momentum == (2**64, 2**64)
    assert max(cost.flops) == 5 * (4 + 2) * 2**93
    with pytest.raises(ValueError, match=r"2147483648x4294967296 has more elements than a tensor can have, 2\^63 - 1"):
        muon_cost([(2**31, 2**32)])
