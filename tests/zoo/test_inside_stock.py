"""Mixtures of experts and language models of transformers: loads are those of their routers, and nothing leaks."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orthoscope.probe import leaks, record

# Third parties warn at import and at construction; that is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")
transformers = pytest.importorskip("transformers")

_TINY = {
    "hidden_size": 32, "intermediate_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 60,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
}  # fmt: skip
_STOCK: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": ("Qwen3Moe", {"num_experts": 6, "num_experts_per_tok": 2, "head_dim": 8}),
    "deepseek_v3": (
        "DeepseekV3",
        {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
         "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", _STOCK)
def test_stock_mixtures_are_counted_as_their_routers_say(kind: str) -> None:
    prefix, options = _STOCK[kind]
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}ForCausalLM")(getattr(transformers, f"{prefix}Config")(**_TINY, **options))
    ids = torch.randint(0, 60, (4, 16))
    loads = record(model, {"input_ids": ids}).experts
    chosen: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if type(module).__name__.endswith("Experts"):

            def keep(_: nn.Module, args: Any, kwargs: Any, name: str = name) -> None:
                found = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and not t.is_floating_point()]
                chosen[name.rpartition(".")[0]] = found[0]

            module.register_forward_pre_hook(keep, with_kwargs=True)
    model.eval()(ids)
    assert loads and set(chosen) == {load.module.removesuffix(".gate") for load in loads}
    for load in loads:
        counts = torch.bincount(chosen[load.module.removesuffix(".gate")].flatten(), minlength=load.experts).double()
        assert load.load == pytest.approx((counts / counts.sum()).tolist())
        assert load.per_token == 2


def test_stock_language_models_are_known_to_be_causal_and_do_not_leak() -> None:
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=40, n_positions=12)
    ids = torch.randint(0, 40, (6, 12), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    found = leaks(transformers.GPT2LMHeadModel(config), batch)
    assert found.later_tokens is not None
    assert found.found == ()
