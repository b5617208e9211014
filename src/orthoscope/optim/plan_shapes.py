"""What to plan for, as it is written on the command line: shapes, well-known models, ranks, dtypes, layouts."""

import re

import torch

# One layer's matrices, (out, in), in the order of the model, and the number of layers.
MODELS: dict[str, tuple[list[tuple[int, int]], int]] = {
    # LLaMA (Touvron et al., 2023a), table 2: query, key, value and output; gate and up; down.
    "7b": ([(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)], 32),
    # LLaMA 2 (Touvron et al., 2023b), table 1 and appendix: 64 heads of 128 share 8 keys and values.
    "70b": ([(8192, 8192), (1024, 8192), (1024, 8192), (8192, 8192)] + [(28672, 8192)] * 2 + [(8192, 28672)], 80),
}
DTYPES = {str(t).removeprefix("torch."): t for t in (torch.float32, torch.bfloat16, torch.float16, torch.float64)}
_SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
_MOST_RANKS = 1_000_000
_MOST = 100_000  # parameters; the arithmetic is a minute's work there on a thousand ranks


def model_shapes(name: str) -> list[tuple[int, ...]]:
    """The hidden matrices of a model, layer by layer; embeddings and the head are not Muon's."""
    if name.lower() not in MODELS:
        raise ValueError(f"unknown model {name!r}: choose one of {', '.join(MODELS)}, or give shapes")
    layer, depth = MODELS[name.lower()]
    return [shape for _ in range(depth) for shape in layer]


def parsed_shapes(text: str) -> list[tuple[int, ...]]:
    """`"4096x4096*128,64x3x3x3"`: sizes joined by x, as often as the number after the star says."""
    found: list[tuple[int, ...]] = []
    for part in text.lower().split(","):
        match = re.fullmatch(r"\s*([1-9]\d*(?:x[1-9]\d*)+)\s*(?:\*\s*([1-9]\d*))?\s*", part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is not a shape: write sizes as 4096x4096, or 4096x4096*128 for many")
        count = int(match[2] or 1)
        if len(found) + count > _MOST:
            raise ValueError(f"a plan holds at most {_MOST} parameters, got more: stack experts into one shape")
        found += [tuple(map(int, match[1].split("x")))] * count
    return found


def whole_numbers(text: str) -> list[int]:
    """`"8,64,1024"` as numbers, each at least 1."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or not 1 <= int(part) <= _MOST_RANKS:
            raise ValueError(
                f"{part!r} is not a number of ranks: write a whole number from 1 to {_MOST_RANKS}, or several"
            )
    return [int(part) for part in parts]


def floating_type(name: str) -> torch.dtype:
    """The dtype of that name, such as `bfloat16` or `bf16`."""
    full = _SHORT.get(name.lower(), name.lower())
    if full not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: choose one of {', '.join(DTYPES)}, or {', '.join(_SHORT)}")
    return DTYPES[full]


def layouts_with_shards(text: str, shards: int | None) -> list[tuple[str, int | None]]:
    """`"ddp,hsdp"` as layouts, each with the shards of a replica that it needs; only hsdp has them, and must."""
    layouts = text.lower().replace(" ", "").split(",")
    if "hsdp" in layouts and shards is None:
        raise ValueError("the layout hsdp needs --shards, the ranks that share one replica: a divisor of --ranks")
    if "hsdp" not in layouts and shards is not None:
        raise ValueError(f"--shards is of the layout hsdp, got it with {text}: leave it out, or add hsdp to --layout")
    return [(layout, shards if layout == "hsdp" else None) for layout in layouts]
