"""Tiny configurations of transformers' model types: the structure of the default one, every size reduced by one rule.

Widths, heads, layers, experts and vocabulary are limited by the names that configurations give them. A number of the
default configuration that equals its hidden size or its number of layers, under whatever name, follows it. Hierarchical
vision networks, which list their stages, keep their widths and lose depth. `OVERRIDES` are the types in which sizes
depend on each other in another way.
"""

import re
from collections.abc import Mapping
from typing import Any

from orthoscope.models.targets.timm_zoo import required

HIDDEN, HEADS, HEAD_DIM, INNER, LAYERS, STAGE_LAYERS = 64, 4, 16, 128, 4, 2
VOCABULARY, EXPERTS, LENGTH = 256, 4, 32
PATCHES, SMALLEST_IMAGE, IMAGE = 4, 32, 64  # along a side; pixels; pixels where a network has no patches
# Ids of special tokens are moved to the end of the vocabulary: text keeps away from it.
SPECIAL = 24

_INNER = r"\w*(intermediate_size|ffn_dim|ffn_hidden_size|d_ff|d_inner|n_inner|mlp_dim|intermediate_dim|ff_dim)"
_LAYERS = r"(\w+_)?(layers|n_layer|num_blocks|n_blocks|depth)"
# Largest values by the whole name, the first that fits.
_LIMITS: tuple[tuple[str, int], ...] = (
    (r"first_k_dense_replace|n_group|topk_group|num_mtp_layers|num_nextn_predict_layers|num_kv_shared_layers", 1),
    (r"num_experts_per_tok(en)?|moe_topk|moe_k|top_k_experts|num_selected_experts", 2),
    (r"n_shared_experts|num_shared_experts", 2),
    (r"(moe_)?num_(local_|routed_)?experts|n_routed_experts|num_moe_experts", EXPERTS),
    (r"qk_head_dim", HEAD_DIM + HEAD_DIM // 2),
    (r"qk_rope_head_dim|index_head_dim", HEAD_DIM // 2),
    (r"rotary_dim|\w*head_dim|d_kv|d_head|dim_head|qk_nope_head_dim|attention_head_size|\w*_head_dim", HEAD_DIM),
    (r"kv_lora_rank|q_lora_rank|o_lora_rank", HEAD_DIM * 2),
    (r"\w*attention_heads|n_heads?|num_heads|n_head|num_attention_heads|index_n_heads", HEADS),
    (_INNER, INNER),
    (r"\w*hidden_size|d_model|n_embd|\w*embed_dim|\w*emb_dim|\w*embedding_size|projection_dim|model_dim|dim", HIDDEN),
    (r"lru_width|width|embedding_dim|hidden_dim|bottleneck_size|proj_codevector_dim|codevector_dim", HIDDEN),
    (r"\w*vocab_size\w*", VOCABULARY),
    (r"max_source_positions", 2 * LENGTH),
    (_LAYERS, LAYERS),
)
_UNCHANGED = re.compile(
    r"\w*(token|position|length|type_vocab|channels|kernel|stride|rate|bins|window|chunk|window)\w*"
)
_TOKEN = re.compile(r"\w*(token_id|token_index|_id|_token)")
# Computed from the stages that a configuration has.
_DERIVED = {"out_features", "out_indices", "_out_features", "_out_indices", "stage_names", "stage_layers"}
_KEPT_KEYS = {"model_type", "transformers_version", "architectures", "num_labels", "dtype", "torch_dtype"}

Config = dict[str, Any]


def tiny(model_type: str) -> Any:
    """Return the reduced configuration of a model type of `transformers.CONFIG_MAPPING`."""
    transformers = required("transformers", model_type)
    kind = transformers.CONFIG_MAPPING[model_type]
    reduced = _merged(shrunk(kind().to_dict()), OVERRIDES.get(model_type, {}))
    config = kind.from_dict(reduced)
    if hasattr(config, "use_cache"):
        config.use_cache = False  # keys and values of earlier tokens are for generation
    return config


def shrunk(config: Config) -> Config:
    """Return the reduced fields of a configuration, and of those inside it, as `to_dict` gives them."""
    widths = {config[name] for name in ("hidden_size", "d_model", "n_embd", "embed_dim") if _is_int(config.get(name))}
    layers = {value for name, value in config.items() if _is_int(value) and re.fullmatch(_LAYERS, name)}
    staged = any(isinstance(config.get(name), list) for name in ("depths", "hidden_sizes", "num_heads"))
    found: Config = {}
    for name, value in config.items():
        if name in _DERIVED:
            continue
        if isinstance(value, Mapping) and "model_type" in value:
            found[name] = shrunk(dict(value))
        elif name == "per_layer_config" and isinstance(value, Mapping):
            found[name] = {layer: own for layer, own in value.items() if int(layer) < LAYERS}
        elif name in _KEPT_KEYS or isinstance(value, (bool, str, float)) or value is None:
            found[name] = value
        elif name == "image_size":
            found[name] = _image_size(value, config)
        elif name == "depths" and isinstance(value, list):
            found[name] = [min(depth, STAGE_LAYERS) for depth in value]
        elif staged:
            found[name] = value
        elif isinstance(value, list):
            found[name] = value[:LAYERS] if len(value) in layers and len(value) > LAYERS else value
        elif _is_int(value):
            found[name] = _limited(name, value, widths, config)
        else:
            found[name] = value
    return _with_token_ids(found)


def _limited(name: str, value: int, widths: set[int], config: Config) -> int:
    if re.fullmatch(r"num_(key_value|kv)_heads|n_head_kv|num_kv_heads|multi_query_group_num", name):
        return _groups(value, config)
    if name == "type_vocab_size":
        return value
    if name == "head_dim" and value == config.get("qk_rope_head_dim"):
        return HEAD_DIM // 2
    for names, limit in _LIMITS:
        if re.fullmatch(names, name):
            return min(value, limit)
    if value in widths and not _UNCHANGED.fullmatch(name):
        return HIDDEN
    return value


def _groups(value: int, config: Config) -> int:
    """Heads of keys and values: as many as queries have, one, or in between, as in the default configuration."""
    heads = config.get("num_attention_heads") or config.get("n_head") or config.get("num_heads") or value
    return min(value, HEADS if value >= heads else HEADS // 2)


def _image_size(value: Any, config: Config) -> Any:
    """So many patches along a side, or a fixed number of pixels where there are no patches or small ones."""
    given = config.get("patch_size")
    patch = given[0] if isinstance(given, list) and given else given
    patches = PATCHES * patch if isinstance(patch, int) and patch > PATCHES else IMAGE
    size = max(SMALLEST_IMAGE, patches)
    if isinstance(value, list):
        return [min(size, one) for one in value]
    return min(size, value) if _is_int(value) else value


def _with_token_ids(config: Config) -> Config:
    """Move ids of special tokens that a smaller vocabulary no longer has to its end, each to an id of its own."""
    sizes = [value for name, value in config.items() if name == "vocab_size" and _is_int(value)]
    size = sizes[0] if sizes else VOCABULARY
    ids = sorted({v for n, v in config.items() if _TOKEN.fullmatch(n) and _is_int(v) and v >= size - SPECIAL})
    moved = {value: size - 1 - rank % SPECIAL for rank, value in enumerate(ids)}
    return {
        name: moved.get(value, value) if _TOKEN.fullmatch(name) and _is_int(value) else value
        for name, value in config.items()
    }


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _merged(config: Config, more: Mapping[str, Any]) -> Config:
    """Overrides win; a mapping is merged into the configuration of that name."""
    found = dict(config)
    for name, value in more.items():
        inside = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = _merged(found[name], value) if inside else value
    return found


_MAMBA2 = {"mamba_n_heads": 2 * HIDDEN // HEAD_DIM, "mamba_d_head": HEAD_DIM}  # twice as wide as the residual stream

OVERRIDES: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 2 * HIDDEN // HEAD_DIM, "head_dim": HEAD_DIM},
    "bamba": _MAMBA2,
    "granitemoehybrid": _MAMBA2,
    "falcon_h1": {**_MAMBA2, "mamba_d_ssm": 2 * HIDDEN},
    "zamba2": {"n_mamba_heads": 2 * HIDDEN // HEAD_DIM, "mamba_headdim": HEAD_DIM},
    "nemotron_h": {"mamba_num_heads": 2 * HIDDEN // HEAD_DIM, "mamba_head_dim": HEAD_DIM},
    "audio-spectrogram-transformer": {"max_length": 2 * LENGTH, "num_mel_bins": 2 * LENGTH},
    # None in the default configuration, which computes nothing from it.
    "hunyuan_v1_dense": {"head_dim": HEAD_DIM},
    "hunyuan_v1_moe": {"head_dim": HEAD_DIM},
    "ministral": {"head_dim": HEAD_DIM},
    "nemotron": {"head_dim": HEAD_DIM, "num_key_value_heads": HEADS},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"]},
    "neomme": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "mobilebert": {"intra_bottleneck_size": HIDDEN, "true_hidden_size": HIDDEN},
    "moonshine": {"encoder_num_key_value_heads": HEADS, "decoder_num_key_value_heads": HEADS},
    # Positions are products: they have to be as many as there are tokens.
    "reformer": {
        "axial_pos_shape": [8, LENGTH // 8],
        "axial_pos_embds_dim": [HIDDEN // 4, 3 * HIDDEN // 4],
        "local_attn_chunk_length": LENGTH // 2,
        "lsh_attn_chunk_length": LENGTH // 2,
    },
    "blt": {"encoder_hash_byte_group_vocab": VOCABULARY},
    "swin": {"window_size": 2},
    "swinv2": {"window_size": 2},
    "donut-swin": {"window_size": 2},
}
