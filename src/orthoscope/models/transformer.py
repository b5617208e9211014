"""A small decoder-only language model: token ids in, logits out."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.activations import Activation, activation
from orthoscope.init import Scheme, initialize_
from orthoscope.init.schemes import TRANSFORMER_STD
from orthoscope.models.blocks import linear, require_positive

POSITIONS_OF_NORM = ("pre", "post")

Stream = Float[Tensor, "samples tokens units"]


class Attention(nn.Module):
    """Multi-head self-attention; `causal` masks later tokens."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.query = linear(width, width, bias=True)
        self.key = linear(width, width, bias=True)
        self.value = linear(width, width, bias=True)
        self.output = linear(width, width, bias=True)

    def forward(self, stream: Stream) -> Stream:
        """Mix the tokens of every sequence."""
        query, key, value = (
            project(stream).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(start_dim=2))
        return out


class TransformerBlock(nn.Module):
    r"""Attention, then two linear layers, each added to the residual stream.

    `norm` "pre" is $h + F(\mathrm{norm}(h))$, "post" is $\mathrm{norm}(h + F(h))$.
    """

    def __init__(self, width: int, heads: int, nonlinearity: Activation, norm: str, causal: bool) -> None:
        super().__init__()
        self.norm = norm
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            linear(width, 4 * width, bias=True), activation(nonlinearity), linear(4 * width, width, bias=True)
        )

    def forward(self, stream: Stream) -> Stream:
        """Add attention and MLP to the residual stream."""
        if self.norm == "pre":
            stream = stream + self.attention(self.attention_norm(stream))
            stream = stream + self.mlp(self.mlp_norm(stream))
        else:
            stream = self.attention_norm(stream + self.attention(stream))
            stream = self.mlp_norm(stream + self.mlp(stream))
        return stream


class Transformer(nn.Module):
    """`depth` blocks on learned token and position embeddings, and a linear head over the vocabulary.

    Embeddings have the standard deviation 0.02, as have all weights with the default `init`. Pre-norm ends with one
    more normalization, as in GPT-2.

    Args:
        depth: Number of blocks.
        width: Hidden size, a multiple of `heads`.
        heads: Attention heads of a block.
        vocabulary: Number of tokens.
        length: Longest sequence.
        norm: "pre" or "post".
        causal: Whether tokens attend to earlier ones only.
        activation: As for `MLP`.
        init: As for `MLP`.
        weight_gain: As for `MLP`.
        generator: Source of random numbers; None for torch's global one.
    """

    def __init__(
        self,
        *,
        depth: int = 6,
        width: int = 128,
        heads: int = 4,
        vocabulary: int = 256,
        length: int = 64,
        norm: str = "pre",
        causal: bool = True,
        activation: Activation = "gelu",
        init: str | Scheme = "normal",
        weight_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_positive(depth=depth, width=width, heads=heads, vocabulary=vocabulary, length=length)
        if width % heads:
            raise ValueError(f"width {width} cannot be split into {heads} heads: choose a multiple of {heads}")
        if norm not in POSITIONS_OF_NORM:
            raise ValueError(f"unknown norm {norm!r}: choose one of {', '.join(POSITIONS_OF_NORM)}")
        self.tokens = _embedding(vocabulary, width, generator)
        self.positions = _embedding(length, width, generator)
        self.layers = nn.Sequential(*(TransformerBlock(width, heads, activation, norm, causal) for _ in range(depth)))
        self.final_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.head = linear(width, vocabulary, bias=False)
        initialize_(self, init, weight_gain, generator)

    def forward(self, token_ids: Int[Tensor, "samples tokens"]) -> Float[Tensor, "samples tokens vocabulary"]:
        """Logits of the next token at every position."""
        count = token_ids.shape[1]
        if count > self.positions.num_embeddings:
            raise ValueError(
                f"this Transformer takes up to {self.positions.num_embeddings} tokens, got {count}: "
                f"build it with length={count}"
            )
        stream = self.tokens(token_ids) + self.positions.weight[:count]
        logits: Tensor = self.head(self.final_norm(self.layers(stream)))
        return logits


def _embedding(count: int, width: int, generator: torch.Generator | None) -> nn.Embedding:
    device = None if generator is None else generator.device
    values = TRANSFORMER_STD * torch.randn(count, width, generator=generator, device=device)
    return nn.Embedding.from_pretrained(values.to(torch.get_default_device()), freeze=False)
