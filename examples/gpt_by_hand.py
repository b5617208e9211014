"""Diagnose a small GPT written by hand, with its residual connections and without them.

Without them attention averages the tokens of a sequence until they are all alike (Dong et al., 2021). Prints the
verdict of both networks, and the effective rank of the tokens along depth. Takes about 10 seconds on two cores.
"""

import torch
from torch import Tensor, nn

import orthoscope

VOCABULARY, LENGTH, HIDDEN, HEADS, LAYERS = 128, 64, 128, 4, 16


class Block(nn.Module):
    """Pre-norm decoder block: causal self-attention, then an MLP, each added to the residual stream if `residual`."""

    def __init__(self, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        self.attention_norm, self.mlp_norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.query_key_value = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.projection = nn.Linear(HIDDEN, HIDDEN)
        self.mlp = nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN))

    def forward(self, stream: Tensor) -> Tensor:
        parts = self.query_key_value(self.attention_norm(stream)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        stream = self.residual * stream + self.projection(mixed.transpose(1, 2).flatten(2))
        return self.residual * stream + self.mlp(self.mlp_norm(stream))


class GPT(nn.Module):
    """Token and position embeddings, `LAYERS` blocks, and a head that predicts the next token."""

    def __init__(self, residual: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(LENGTH, HIDDEN)
        self.blocks = nn.Sequential(*[Block(residual) for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        stream = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(stream)))


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def main() -> None:
    torch.set_flush_denormal(True)  # vanishing gradients are subnormal numbers, slow on most processors
    ids = orthoscope.data.tokens(16, LENGTH, VOCABULARY, generator=torch.Generator().manual_seed(0))
    for residual in (True, False):
        torch.manual_seed(0)
        diagnosis = orthoscope.diagnose(GPT(residual), (ids, ids), loss=next_token_loss)
        print(f"{'with' if residual else 'without'} residual connections: {diagnosis.verdict}")
        for row in diagnosis.layers:
            if row.name in ("blocks.0", "blocks.7", "blocks.15"):
                rank = row.token_view.effective_rank  # of the tokens of a sequence, mean over sequences
                print(f"  {row.name}: effective rank {rank:.1f} of {row.tokens} tokens")


if __name__ == "__main__":
    main()
