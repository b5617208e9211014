"""The predicted cost of a step on many ranks is what ranks of a fake process group send, and the verb prints it."""

import json
from collections.abc import Iterator

import jsonschema
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from wire import WireBytes

from cli.process import orthoscope
from orthoscope import report
from orthoscope.cli.plan_muon import parsed_shapes, plan_document, plan_muon
from orthoscope.optim.muon.cost import model_shapes, muon_cost
from orthoscope.optim.muon.distributed.exchange import orthogonalized
from orthoscope.optim.muon.distributed.splits import chunk_sizes
from orthoscope.optim.muon.views import MatrixView
from orthoscope.report.document import to_data


@pytest.fixture(params=[0, 5, 15])
def fake_rank(request: pytest.FixtureRequest) -> Iterator[int]:
    """One rank of a fake process group of 16."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=16)
    yield request.param
    dist.destroy_process_group()


LARGE = [(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008), (37, 4096), (50, 3, 7, 7)]
LARGE += [(5, 640)] * 12  # some owners hold no slice of them


@pytest.mark.parametrize("layout", ["ddp", "fsdp", "hsdp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_bytes_sent_on_sixteen_fake_ranks_are_the_predicted_ones(
    layout: str, dtype: torch.dtype, fake_rank: int
) -> None:
    mesh = init_device_mesh("cpu", (2, 8) if layout == "hsdp" else (16,))
    placements = [Replicate(), Shard(0)] if layout == "hsdp" else [Shard(0)]
    views = [MatrixView()] * len(LARGE)

    def copies(updates: list[Tensor], _: list[MatrixView]) -> list[Tensor]:
        return [update.clone() for update in updates]

    def update(shape: tuple[int, ...]) -> Tensor:
        if layout == "ddp":
            return torch.empty(shape, dtype=dtype)
        rows = chunk_sizes(shape[0], mesh.size(mesh.ndim - 1))[mesh.get_local_rank(mesh.ndim - 1)]
        local, full = torch.empty(rows, *shape[1:], dtype=dtype), torch.empty(shape, device="meta")
        return DTensor.from_local(local, mesh, placements, run_check=False, shape=full.shape, stride=full.stride())

    with FakeTensorMode():
        updates = [update(shape) for shape in LARGE]
        group = dist.group.WORLD if layout == "ddp" else None
        with WireBytes() as wire:
            orthogonalized(updates, views, copies, group)
    cost = muon_cost(LARGE, layout=layout, ranks=16, shards=8 if layout == "hsdp" else None, dtype=dtype)
    expected: dict[str, int] = {}
    for call, sent in cost.sent.items():
        if call != "agreement":  # of gloo only
            expected[call.split()[0]] = expected.get(call.split()[0], 0) + sent[fake_rank]
    assert wire.sent == expected
    assert sum(expected.values()) > 1e6


def test_seven_billion_parameters_on_eight_ranks() -> None:
    """By hand: $6.476 \\cdot 10^9$ elements, of which 7/8 are sent to owners and 7/8 back."""
    shapes = model_shapes("7b")
    elements = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    cost = muon_cost(shapes, layout="fsdp", ranks=8)
    assert (cost.parameters, cost.elements) == (224, elements)
    assert set(cost.momentum) == {elements * 4 // 8}
    # Every rank owns as much as any other, and an eighth of what it owns is already there.
    assert set(cost.total_sent) == {2 * 4 * elements // 8 * 7 // 8 + 7 * 16}
    assert muon_cost(shapes, layout="ddp", ranks=8).sent["all_gather"] == (4 * elements // 8 * 7,) * 8


def test_a_thousand_ranks_do_not_send_padding() -> None:
    shapes = model_shapes("70b")
    cost = muon_cost(shapes, layout="ddp", ranks=1024, dtype=torch.bfloat16)
    assert cost.elements == 80 * (2 * 8192**2 + 2 * 1024 * 8192 + 3 * 8192 * 28672)
    assert max(cost.total_sent) < 1.01 * 2 * cost.elements
    assert 3 * 2 * cost.elements < 1023 * 2 * 8192 * 28672, "padded to the largest matrix, it would be thrice that"


def test_replicas_share_the_work() -> None:
    shapes = model_shapes("7b")
    sharded, replicated = (muon_cost(shapes, layout=layout, ranks=64) for layout in ("fsdp", "ddp"))
    hybrid = muon_cost(shapes, layout="hsdp", ranks=64, shards=8)
    assert hybrid.flops == sharded.flops == replicated.flops
    assert set(hybrid.momentum) == {4 * hybrid.elements // 8}
    assert max(sharded.total_sent) < max(hybrid.total_sent) < max(replicated.total_sent)


def test_one_rank_sends_nothing() -> None:
    for layout in ("ddp", "fsdp"):
        cost = muon_cost([(4, 6), (8, 3)], layout=layout, ranks=1)
        assert cost.total_sent == (0,)
        assert to_data(plan_document([cost]))["plans"][0]["bytes_sent"] == {"max": 0, "mean": 0}


def test_shapes_are_parsed_with_their_counts() -> None:
    assert parsed_shapes("4x6*2, 3x2x5x5") == [(4, 6), (4, 6), (3, 2, 5, 5)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "zero"}, r"unknown layout 'zero': choose one of ddp, fsdp, hsdp"),
        ({"ranks": 0}, r"ranks must be at least 1, got 0"),
        ({"layout": "hsdp"}, r"a divisor of 8 ranks, got none"),
        ({"layout": "hsdp", "shards": 3}, r"a divisor of 8 ranks, got 3"),
        ({"shards": 2}, r"the layout is fsdp: leave them out"),
        ({"shapes": []}, r"no shapes given"),
        ({"shapes": [(5,)]}, r"holds no matrix"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        muon_cost(**{"shapes": [(4, 4)], **options})  # type: ignore[arg-type]


def test_the_verb_prints_a_table_and_json() -> None:
    shown = orthoscope("plan-muon", "--model", "7b", "--ranks", "8,1024", "--layout", "fsdp,ddp", "--json", "-")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["schema"] == "orthoscope.muon-plan/1"
    jsonschema.Draft202012Validator(report.schema()).validate(document)
    assert [(plan["layout"], plan["ranks"]) for plan in document["plans"]] == [
        ("fsdp", 8),
        ("fsdp", 1024),
        ("ddp", 8),
        ("ddp", 1024),
    ]
    first = to_data(plan_document([muon_cost(model_shapes("7b"), layout="fsdp", ranks=8)]))["plans"][0]
    assert document["plans"][0] == first
    assert shown.stderr.startswith("MUON")
    assert "5.67 GB" in shown.stderr
    assert "all_to_all to owners" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, r"either --shapes or --model"),
        ({"shapes": "3x"}, r"'3x' is not a shape"),
        ({"shapes": "3x4*0"}, r"'3x4\*0' is not a shape"),
        ({"shapes": "3x4*100001"}, r"at most 100000 parameters"),
        ({"model": "8b"}, r"unknown model '8b': choose one of 7b, 70b"),
        ({"model": "7b", "shapes": "3x4"}, r"either --shapes or --model"),
        ({"model": "7b", "ranks": "8,two"}, r"'two' is not a number of ranks"),
        ({"model": "7b", "dtype": "int8"}, r"unknown dtype 'int8'"),
        ({"model": "7b", "layout": "hsdp", "shards": 3}, r"a divisor of 8 ranks, got 3"),
        ({"model": "7b", "json": "plan.txt"}, r"does not end in .json"),
    ],
)
def test_the_verb_refuses_invalid_arguments(arguments: dict[str, str | int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan_muon(**arguments)  # type: ignore[arg-type]
