"""`orthoscope plan-muon`: what a step of Muon will cost on a cluster."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app
from orthoscope.cli.output import refuse_unwritable


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
    """Plan the distributed Muon: what each rank sends, keeps and computes in one step.

    Parameters
    ----------
    shapes
        Shapes of the parameters, such as `4096x4096*128,11008x4096*64,4096x11008*32`.
    model
        Instead of shapes: 7b or 70b, the hidden matrices of LLaMA.
    ranks
        Number of ranks; several are planned one after the other, as in 8,64,1024.
    layout
        ddp, fsdp, hsdp, or several of them.
    shards
        Ranks that share one replica under hsdp, which needs it; a divisor of the ranks.
    dtype
        Of parameters, momentum and what is sent: float32, bfloat16, float16, float64, or fp32, bf16, fp16, fp64.
    json
        Write JSON here; "-" is standard output, and the table goes to standard error.
    """
    import json as strict_json

    from rich.console import Console

    from orthoscope.optim.plan import SCHEMA, muon_plan
    from orthoscope.optim.plan_shapes import (
        floating_type,
        layouts_with_shards,
        model_shapes,
        parsed_shapes,
        whole_numbers,
    )
    from orthoscope.report.documents import replace as write_whole
    from orthoscope.report.muon_plan import plan_table

    if bool(shapes) == bool(model):
        raise ValueError("a plan is for one list of parameters: give either --shapes or --model")
    refuse_unwritable(None, json)
    parameters = model_shapes(model) if model else parsed_shapes(shapes)
    plans = [
        muon_plan(parameters, layout=kind, ranks=count, shards=shared, dtype=floating_type(dtype)).document()
        for kind, shared in layouts_with_shards(layout, shards)
        for count in whole_numbers(ranks)
    ]
    Console(stderr=json == "-").print(plan_table(plans))
    content = strict_json.dumps({"schema": SCHEMA, "plans": plans}, allow_nan=False, indent=1) + "\n"
    if json == "-":
        print(content, end="")
    elif json is not None:
        write_whole(Path(json), content)
        print(f"wrote {json}", file=sys.stderr)
    return 0
