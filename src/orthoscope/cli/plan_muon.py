"""`orthoscope plan-muon`: the cost of a step of Muon on a cluster, before there is one."""

import re
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app, refuse_unwritable, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from orthoscope.optim.muon.cost import MuonCost
    from orthoscope.report.document import MuonPlanDocument

DTYPES = ("float32", "bfloat16", "float16", "float64")
_SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
_MAX_RANKS = 1_000_000
_MAX_PARAMETERS = 100_000  # about a minute of arithmetic on a thousand ranks


@app.command
def plan_muon(
    *,
    shapes: str = "",
    model: str = "",
    ranks: str = "8",
    layout: str = "ddp,fsdp",
    shards: int | None = None,
    dtype: str = "float32",
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
) -> int:
    """Plan the distributed Muon: what each process sends, keeps and computes in one step.

    Parameters
    ----------
    shapes
        Shapes of the parameters, such as `4096x4096*128,11008x4096*64,4096x11008*32`.
    model
        Instead of shapes: 7b or 70b, the hidden matrices of LLaMA.
    ranks
        Number of processes (ranks), or several, as in 8,64,1024.
    layout
        ddp, fsdp, hsdp, or several of them.
    shards
        Number of processes that share one replica, a divisor of the number of ranks; required for hsdp.
    dtype
        Type of parameters, momentum and messages: float32, bfloat16, float16, float64, or fp32, bf16, fp16, fp64.
    json
        Write JSON here; "-" is standard output, and the table goes to standard error.
    """
    import json as strict_json

    from rich.console import Console

    from orthoscope.optim.muon.cost import model_shapes, muon_cost
    from orthoscope.report.document import to_data
    from orthoscope.report.muon_plan_terminal import plan_table

    if bool(shapes) == bool(model):
        raise ValueError("expected one list of parameters: give either --shapes or --model")
    refuse_unwritable(None, json)
    parameters = model_shapes(model) if model else parsed_shapes(shapes)
    costs = [
        muon_cost(parameters, layout=kind, ranks=count, shards=shared, dtype=floating_type(dtype))
        for kind, shared in layouts_with_shards(layout, shards)
        for count in rank_counts(ranks)
    ]
    document = plan_document(costs)
    Console(stderr=json == "-").print(plan_table(document))
    write_text(strict_json.dumps(to_data(document), allow_nan=False, indent=1) + "\n", json)
    return 0


def plan_document(costs: "Sequence[MuonCost]") -> "MuonPlanDocument":
    """Write down the costs of a step on several clusters."""
    from orthoscope.report.document import MuonPlanDocument, PerProcess, StepCost, copied

    def summary(values: tuple[int, ...]) -> PerProcess:
        return PerProcess(max=max(values), mean=sum(values) / len(values))

    plans = (
        copied(
            StepCost,
            cost,
            bytes_sent=summary(cost.total_sent),
            bytes_sent_by_call={call: summary(sent) for call, sent in cost.sent.items()},
            momentum_bytes=summary(cost.momentum),
            temporary_bytes=summary(cost.temporary),
            flops=summary(cost.flops),
            busiest_to_mean=max(cost.flops) * len(cost.flops) / sum(cost.flops) if any(cost.flops) else 1.0,
            ranks_with_work=sum(count > 0 for count in cost.owned),
        )
        for cost in costs
    )
    return MuonPlanDocument(plans=tuple(plans))


def parsed_shapes(text: str) -> list[tuple[int, ...]]:
    """Read `"4096x4096*128,64x3x3x3"`: sizes joined by x, repeated as the number after the star says."""
    found: list[tuple[int, ...]] = []
    for part in text.lower().split(","):
        match = re.fullmatch(r"\s*([1-9]\d*(?:x[1-9]\d*)+)\s*(?:\*\s*([1-9]\d*))?\s*", part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is not a shape: write sizes as 4096x4096, or 4096x4096*128 for many")
        count = int(match[2] or 1)
        if len(found) + count > _MAX_PARAMETERS:
            raise ValueError(
                f"at most {_MAX_PARAMETERS} parameters are planned, got more: stack experts into one shape"
            )
        found += [tuple(map(int, match[1].split("x")))] * count
    return found


def rank_counts(text: str) -> list[int]:
    """Read `"8,64,1024"` as numbers of ranks."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or not 1 <= int(part) <= _MAX_RANKS:
            raise ValueError(
                f"{part!r} is not a number of ranks: write a whole number from 1 to {_MAX_RANKS}, or several"
            )
    return [int(part) for part in parts]


def floating_type(name: str) -> "torch.dtype":
    """Return the dtype of that name, such as `bfloat16` or `bf16`."""
    import torch

    full = _SHORT.get(name.lower(), name.lower())
    if full not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: choose one of {', '.join(DTYPES)}, or {', '.join(_SHORT)}")
    return getattr(torch, full)


def layouts_with_shards(text: str, shards: int | None) -> list[tuple[str, int | None]]:
    """Read `"ddp,hsdp"` as layouts, each with its number of shards: that of hsdp, None for the others."""
    layouts = text.lower().replace(" ", "").split(",")
    if "hsdp" in layouts and shards is None:
        raise ValueError("the layout hsdp needs --shards, the ranks that share one replica: a divisor of --ranks")
    if "hsdp" not in layouts and shards is not None:
        raise ValueError(f"--shards is for the layout hsdp, got it with {text}: leave it out, or add hsdp to --layout")
    return [(layout, shards if layout == "hsdp" else None) for layout in layouts]
