"""Mixtures of experts and language models of transformers: loads are those of their routers, and nothing leaks."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orthoscope.models import resolve
from orthoscope.probe import leaks, record

# Third parties warn at import and at construction; that is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

_TINY = "hidden_size=32, intermediate_size=32, num_hidden_layers=2, vocab_size=60, num_attention_heads=4"
_HALVES = "q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8"
MIXTURES = {
    f"hf:mixtral({_TINY}, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)": 2,
    f"hf:qwen3_moe({_TINY}, num_key_value_heads=2, moe_intermediate_size=16, num_experts=6, num_experts_per_tok=2)": 2,
    f"hf:deepseek_v3({_TINY}, {_HALVES}, moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3, "
    "n_group=2, topk_group=1, first_k_dense_replace=1)": 3,
}


@pytest.mark.parametrize("name", MIXTURES, ids=lambda name: name.split("(")[0])
def test_stock_mixtures_are_counted_as_their_routers_say(name: str) -> None:
    model = resolve(name).build(torch.Generator().manual_seed(0))
    ids = torch.randint(0, 60, (4, 16), generator=torch.Generator().manual_seed(0))
    loads = record(model, {"input_ids": ids}).experts
    chosen: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        if type(module).__name__.endswith(("Experts", "NaiveMoe")):

            def keep(_: nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
                found = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and not t.is_floating_point()]
                chosen[path.rpartition(".")[0]] = found[0]

            module.register_forward_pre_hook(keep, with_kwargs=True)
    model.eval()(ids)
    assert loads
    assert {load.module for load in loads} == set(chosen)
    for load in loads:
        counts = torch.bincount(chosen[load.module].flatten(), minlength=load.experts).double()
        assert load.load == pytest.approx((counts / counts.sum()).tolist())
        assert load.per_token == MIXTURES[name]


def test_stock_language_models_are_known_to_be_causal_and_do_not_leak() -> None:
    name = "hf:gpt2(vocab_size=200, n_positions=64, n_embd=32, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0)"
    model = resolve(name).build(torch.Generator().manual_seed(0))
    ids = torch.randint(0, 200, (6, 12), generator=torch.Generator().manual_seed(0))
    found = leaks(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert found.later_tokens is not None
    assert found.other_samples is not None
    assert found.found == ()
