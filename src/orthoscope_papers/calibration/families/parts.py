"""Parts that several families are made of: residual branches, attention, and what stands before and after blocks."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


class LayerScale(nn.Module):
    """A trainable factor for every channel."""

    def __init__(self, width: int, value: float, maps: bool = False) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width, 1, 1) if maps else (width,), value))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Residual(nn.Module):
    """Skip plus branch, normalized before the branch or after the sum.

    `gate` acts on the output of the branch, `skip` on what goes around it.
    """

    def __init__(
        self,
        branch: nn.Module,
        width: int,
        norm: nn.Module | None = None,
        *,
        after: bool = False,
        maps: bool = False,
        gate: nn.Module | None = None,
        skip: nn.Module | None = None,
        act: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.width, self.maps, self.after = width, maps, after
        self.norm = norm or nn.Identity()
        self.branch = branch
        self.gate = gate or nn.Identity()
        self.skip = skip or nn.Identity()
        self.act = act or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if self.after:
            return self.act(self.norm(self.skip(x) + self.gate(self.branch(x))))
        return self.act(self.skip(x) + self.gate(self.branch(self.norm(x))))


class Attention(nn.Module):
    """Multi-head attention, of a sequence to itself; `reads`, if given, is another sequence to attend to."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, rotary: bool = False, bias: bool = True):
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.axis, self.first_only = -1, False  # of the softmax; whether all tokens but the first are masked
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(width, width, bias)
        self.value = nn.Linear(width, width, bias)
        self.out = nn.Linear(width, width, bias)

    def forward(self, x: Tensor, reads: Tensor | None = None) -> Tensor:
        source = x if reads is None else reads
        query, key, value = (
            layer(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, tokens in ((self.query, x), (self.key, source), (self.value, source))
        )
        if self.rotary:
            query, key = rotated(query), rotated(key)
        logits = query @ key.mT / math.sqrt(query.shape[-1])
        hidden = self._hidden(logits)
        weights = logits.masked_fill(hidden, -1e9).softmax(self.axis)
        return self.out((weights @ value).transpose(1, 2).flatten(2))

    def _hidden(self, logits: Tensor) -> Tensor:
        rows, columns = logits.shape[-2:]
        hidden = torch.zeros(rows, columns, dtype=torch.bool, device=logits.device)
        if self.causal:
            hidden = torch.ones_like(hidden).triu(1)
        if self.first_only:
            hidden[:, 1:] = True
        return hidden


def rotated(x: Tensor) -> Tensor:
    """Rotary position embedding of `(samples, heads, tokens, entries)`."""
    tokens, half = x.shape[-2], x.shape[-1] // 2
    rates = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(tokens, device=x.device)[:, None] * rates
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class FeedForward(nn.Module):
    """Two linear layers."""

    def __init__(self, width: int, hidden: int, act: type[nn.Module] = nn.GELU, bias: bool = True) -> None:
        super().__init__()
        self.expand = nn.Linear(width, hidden, bias)
        self.act = act()
        self.contract = nn.Linear(hidden, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.act(self.expand(x)))


class SwiGLU(nn.Module):
    """Two linear layers, the first gated."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.expand = nn.Linear(width, hidden, bias=False)
        self.act = nn.SiLU()
        self.contract = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.act(self.gate_proj(x)) * self.expand(x))


class Characters(nn.Module):
    """Embeddings of characters, with those of positions."""

    def __init__(self, vocabulary: int, width: int, length: int = 0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width) if length else None

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.tokens(x)
        if self.positions is None:
            return embedded
        return embedded + self.positions.weight[: x.shape[1]]


class Patches(nn.Module):
    """Patches of an image as tokens, with embeddings of positions if asked."""

    def __init__(self, channels: int, width: int, patch: int, tokens: int = 0) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(tokens, width)) if tokens else None

    def forward(self, x: Tensor) -> Tensor:
        tokens: Tensor = self.proj(x).flatten(2).mT
        return tokens if self.positions is None else tokens + self.positions


class Mean(nn.Module):
    """Mean over tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class MeanOfMap(nn.Module):
    """Mean over pixels."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


class LastToken(nn.Module):
    """The last token of a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


class ChannelNorm(nn.Module):
    """Layer norm over the channels of every pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        normalized: Tensor = self.norm(x.movedim(1, -1))
        return normalized.movedim(-1, 1)


class Stack(nn.Module):
    """Stem, blocks one after the other, neck, head."""

    def __init__(self, stem: nn.Module, blocks: Iterable[nn.Module], neck: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = nn.ModuleList(blocks)
        self.neck = neck
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.neck(x))


def transformer_block(
    width: int,
    attention: nn.Module,
    feed_forward: nn.Module,
    norm: Callable[[int], nn.Module] = nn.LayerNorm,
    after: bool = False,
    scale: float | None = None,
) -> nn.Sequential:
    """Attention and feed-forward network, each a residual branch, with LayerScale if asked."""
    gates = [None if scale is None else LayerScale(width, scale) for _ in range(2)]
    return nn.Sequential(
        Residual(attention, width, norm(width), after=after, gate=gates[0]),
        Residual(feed_forward, width, norm(width), after=after, gate=gates[1]),
    )


def normal_(model: nn.Module, std: float = 0.02, branches: int = 0) -> nn.Module:
    """Draw weights as GPT-2 and ViT do: normal, biases 0; of `branches`, if told, the last layer is smaller."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in model.modules():
        if branches and isinstance(module, Residual):
            last = [layer for layer in module.branch.modules() if isinstance(layer, nn.Linear)][-1]
            nn.init.normal_(last.weight, std=std / math.sqrt(branches))
    return model


def zero_(layer: nn.Module) -> None:
    """Let a layer begin with zeros."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


def kaiming_(model: nn.Module) -> nn.Module:
    """Draw convolutions as ResNets of torchvision do: He's, by outputs."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
