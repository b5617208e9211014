"""Transformers that read or write text: as GPT, Llama, BERT and T5 are, and one whose branches are in parallel."""

from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import (
    Attention,
    Characters,
    FeedForward,
    Residual,
    Stack,
    SwiGLU,
    normal_,
    transformer_block,
)
from orthoscope_papers.calibration.tasks import LENGTH, VOCABULARY

_WIDTH, _HEADS, _BLOCKS = 32, 4, 4


def gpt(settings: Settings, after: bool = False) -> nn.Module:
    """GPT-2; GPT-1 with `after`."""
    count, after = _BLOCKS * settings.depth, after ^ settings.moved
    blocks = [
        transformer_block(_WIDTH, Attention(_WIDTH, _HEADS, causal=True), FeedForward(_WIDTH, 4 * _WIDTH), after=after)
        for _ in range(count)
    ]
    neck = nn.Identity() if after else nn.LayerNorm(_WIDTH)
    head = nn.Linear(_WIDTH, VOCABULARY, bias=False)
    return normal_(Stack(Characters(VOCABULARY, _WIDTH, LENGTH), blocks, neck, head), branches=2 * count)


def gpt_post(settings: Settings) -> nn.Module:
    """Normalization after the sum, as in the first Transformers."""
    return gpt(settings, after=True)


def llama(settings: Settings) -> nn.Module:
    """RMS norm, rotary positions, SwiGLU, no biases."""
    blocks = [
        transformer_block(
            _WIDTH,
            Attention(_WIDTH, _HEADS, causal=True, rotary=True, bias=False),
            SwiGLU(_WIDTH, 88),
            nn.RMSNorm,
            after=settings.moved,
        )
        for _ in range(_BLOCKS * settings.depth)
    ]
    neck = nn.Identity() if settings.moved else nn.RMSNorm(_WIDTH)
    return normal_(Stack(Characters(VOCABULARY, _WIDTH), blocks, neck, nn.Linear(_WIDTH, VOCABULARY, bias=False)))


def bert(settings: Settings) -> nn.Module:
    """Attention in both directions, normalization after the sum and after the embedding."""
    after = not settings.moved
    blocks = [
        transformer_block(_WIDTH, Attention(_WIDTH, _HEADS), FeedForward(_WIDTH, 4 * _WIDTH), after=after)
        for _ in range(_BLOCKS * settings.depth)
    ]
    stem = nn.Sequential(Characters(VOCABULARY, _WIDTH, LENGTH), nn.LayerNorm(_WIDTH))
    neck = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.GELU(), nn.LayerNorm(_WIDTH))
    return normal_(Stack(stem, blocks, neck, nn.Linear(_WIDTH, VOCABULARY)))


class _Parallel(nn.Module):
    """Attention and feed-forward network side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(_WIDTH, _HEADS, causal=True, rotary=True, bias=False)
        self.feed_forward = FeedForward(_WIDTH, 4 * _WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x) + self.feed_forward(x)


def parallel(settings: Settings) -> nn.Module:
    """GPT-J and PaLM: one normalization for both branches of a block, which add up."""
    blocks = [
        Residual(_Parallel(), _WIDTH, nn.LayerNorm(_WIDTH), after=settings.moved)
        for _ in range(_BLOCKS * settings.depth)
    ]
    stem, head = Characters(VOCABULARY, _WIDTH), nn.Linear(_WIDTH, VOCABULARY)
    return normal_(Stack(stem, blocks, nn.LayerNorm(_WIDTH), head))


class _Reading(nn.Module):
    """Attention to what the encoder made, which is given before every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(_WIDTH, _HEADS)
        self.reads: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.attention(x, self.reads)
        self.reads = None
        return output


class EncoderDecoder(nn.Module):
    """An encoder of one text and a decoder of another that reads it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        after = settings.moved
        self.stem = Characters(VOCABULARY, _WIDTH, LENGTH)
        self.encoder = nn.Sequential(
            *(
                transformer_block(
                    _WIDTH, Attention(_WIDTH, _HEADS), FeedForward(_WIDTH, 4 * _WIDTH, nn.ReLU), after=after
                )
                for _ in range(2 * settings.depth)
            ),
            nn.LayerNorm(_WIDTH),
        )
        self.blocks = nn.ModuleList(self._decoding(after) for _ in range(2 * settings.depth))
        self.neck = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, VOCABULARY)

    def _decoding(self, after: bool) -> nn.Module:
        branches = (
            Attention(_WIDTH, _HEADS, causal=True),
            _Reading(),
            FeedForward(_WIDTH, 4 * _WIDTH, nn.ReLU),
        )
        return nn.Sequential(*(Residual(one, _WIDTH, nn.LayerNorm(_WIDTH), after=after) for one in branches))

    def forward(self, source: Tensor, x: Tensor) -> Tensor:
        encoded = self.encoder(self.stem(source))
        for module in self.blocks.modules():
            if isinstance(module, _Reading):
                module.reads = encoded
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.neck(x))


def encoder_decoder(settings: Settings) -> nn.Module:
    """As T5 has it, with ReLU and learned positions."""
    return normal_(EncoderDecoder(settings), std=0.05)


LANGUAGE = (
    Family("gpt", "transformer", "next characters", gpt, "gpt", movable=True, own_weights=True, deepest=8),
    Family("gpt post-norm", "transformer", "next characters", gpt_post, "gpt", movable=True, own_weights=True),
    Family("llama", "transformer", "next characters", llama, movable=True, own_weights=True),
    Family("bert", "transformer", "masked text", bert, movable=True, own_weights=True),
    Family("parallel", "transformer", "next characters", parallel, movable=True, own_weights=True),
    Family("encoder-decoder", "transformer", "continued text", encoder_decoder, movable=True, own_weights=True),
)
