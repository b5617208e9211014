"""Networks with a state that passes along a sequence: LSTM, GRU, and state spaces with fixed and with chosen rates."""

import math

import torch
from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import (
    Characters,
    LastToken,
    Mean,
    Residual,
    Stack,
)
from orthoscope_papers.calibration.tasks import CLASSES, SIDE, VOCABULARY

_WIDTH = 40
_MAMBA = 32


class _States(nn.Module):
    """The hidden states of a recurrent layer."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.layer(x)[0]
        return states


def lstm(settings: Settings) -> nn.Module:
    """Two layers that read an image row by row."""
    blocks = [_States(nn.LSTM(64, 64, batch_first=True)) for _ in range(2 * settings.depth)]
    return Stack(nn.Linear(SIDE, 64), blocks, LastToken(), nn.Linear(64, CLASSES))


def gru(settings: Settings) -> nn.Module:
    """Two layers that predict characters."""
    blocks = [_States(nn.GRU(_WIDTH, _WIDTH, batch_first=True)) for _ in range(2 * settings.depth)]
    return Stack(Characters(VOCABULARY, _WIDTH), blocks, nn.Identity(), nn.Linear(_WIDTH, VOCABULARY))


class _Tagging(nn.Module):
    """States from both directions, halves of one width."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(_WIDTH, _WIDTH // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.layer(x)[0]
        return states


def bidirectional(settings: Settings) -> nn.Module:
    """Normalized residual LSTMs of both directions that restore masked characters."""
    blocks = [
        Residual(_Tagging(), _WIDTH, nn.LayerNorm(_WIDTH), after=settings.moved) for _ in range(2 * settings.depth)
    ]
    return Stack(Characters(VOCABULARY, _WIDTH), blocks, nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, VOCABULARY))


class _Diagonal(nn.Module):
    r"""A diagonal state space with real rates, as a convolution: $y = D x + \sum_n c_n\,(e^{-a_n t} * x)$."""

    def __init__(self, width: int, states: int = 8) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.linspace(math.log(0.02), math.log(1.0), states).repeat(width, 1))
        self.weights = nn.Parameter(torch.randn(width, states) / states**0.5)
        self.direct = nn.Parameter(torch.ones(width))
        self.act = nn.GELU()
        self.mix = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        times = torch.arange(tokens, device=x.device, dtype=x.dtype)
        kernel = torch.einsum("wn,wnt->wt", self.weights, torch.exp(-self.rates.exp()[..., None] * times))
        spectrum = torch.fft.rfft(x.mT, 2 * tokens) * torch.fft.rfft(kernel, 2 * tokens)
        passed = torch.fft.irfft(spectrum, 2 * tokens)[..., :tokens].mT
        return self.mix(self.act(passed + self.direct * x))


def diagonal(settings: Settings) -> nn.Module:
    """S4D with real rates, on the rows of an image."""
    blocks = [
        Residual(_Diagonal(_WIDTH), _WIDTH, nn.LayerNorm(_WIDTH), after=settings.moved)
        for _ in range(4 * settings.depth)
    ]
    neck = nn.Sequential(nn.LayerNorm(_WIDTH), Mean())
    return Stack(nn.Linear(SIDE, _WIDTH), blocks, neck, nn.Linear(_WIDTH, CLASSES))


class _Selective(nn.Module):
    """Mamba's mixer: a short convolution, and a state that every token chooses how to write, keep and read.

    All tokens are computed at once: the decay between two of them is the exponential of a difference of sums.
    """

    def __init__(self, width: int, states: int = 4) -> None:
        super().__init__()
        inner = 2 * width
        self.states = states
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.act = nn.SiLU()
        self.x_proj = nn.Linear(inner, 1 + 2 * states, bias=False)
        self.step = nn.Parameter(torch.tensor(-2.0))
        self.rates = nn.Parameter(torch.arange(1, states + 1).float().log())
        self.direct = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden, gate = self.in_proj(x).chunk(2, dim=-1)
        hidden = self.act(self.conv(hidden.mT)[..., : x.shape[1]].mT)
        chosen, reads, writes = self.x_proj(hidden).split((1, self.states, self.states), dim=-1)
        # One step size a token: the decay from one token to another is shared by the channels.
        step = nn.functional.softplus(chosen + self.step)
        sums = (step * self.rates.exp()).cumsum(1)
        decay = sums[:, None] - sums[:, :, None]  # of a state, to a token (first) from an earlier one (second)
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()[..., None]
        kept = torch.exp(torch.where(past, decay, -torch.inf))
        mixing = torch.einsum("bts,bis,btis->bti", writes, reads, kept) * step.mT
        return self.out_proj((mixing @ hidden + self.direct * hidden) * self.act(gate))


def mamba(settings: Settings) -> nn.Module:
    """Selective state spaces that predict characters; as in Mamba-2, channels share their decay."""
    blocks = [
        Residual(_Selective(_MAMBA), _MAMBA, nn.RMSNorm(_MAMBA), after=settings.moved)
        for _ in range(3 * settings.depth)
    ]
    return Stack(Characters(VOCABULARY, _MAMBA), blocks, nn.RMSNorm(_MAMBA), nn.Linear(_MAMBA, VOCABULARY))


SEQUENCES = (
    Family("lstm", "recurrent", "rows", lstm),
    Family("gru", "recurrent", "next characters", gru),
    Family("bidirectional lstm", "recurrent", "masked text", bidirectional, movable=True),
    Family("diagonal", "state space", "rows", diagonal, movable=True),
    Family("mamba", "state space", "next characters", mamba, movable=True),
)
