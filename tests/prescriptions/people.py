"""Small networks as people write them, some with a fault; every one is drawn from seed 0."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import orthoscope
from orthoscope.prescriptions import Prescription

VOCABULARY, LENGTH, WIDTH = 32, 8, 16


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


class Block(nn.Module):
    """Pre-norm attention and a GELU network, which is a function."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        y, shape = self.first_norm(x), (*x.shape[:2], self.heads, -1)
        q, k, v = (part(y).view(shape).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out_proj(mixed)
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


class GPT(nn.Module):
    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block(WIDTH, 2) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x))
        return out


def plain(depth: int, activation: type[nn.Module] = nn.ReLU, width: int = 64, outputs: int = 10) -> nn.Sequential:
    hidden = [part for _ in range(depth - 1) for part in (nn.Linear(width, width), activation())]
    return nn.Sequential(*hidden, nn.Linear(width, outputs))


class PlainConv(nn.Module):
    """A deep convolutional network whose activations are functions: no skip, no normalization."""

    def __init__(self, depth: int = 20, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth - 2))
        self.head = nn.Linear(channels, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = F.relu(self.first(images))
        for conv in self.convs:
            hidden = F.relu(conv(hidden))
        out: Tensor = self.head(hidden.mean((2, 3)))
        return out


class Residual(nn.Module):
    """A branch that ends in a zero-initialized convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = hidden + self.second(F.relu(self.first(F.relu(hidden))))
        return out


class ZeroGated(nn.Module):
    def __init__(self, depth: int = 4, channels: int = 8) -> None:
        super().__init__()
        self.first, self.head = nn.Conv2d(1, channels, 3, padding=1), nn.Linear(channels, 10)
        self.blocks = nn.Sequential(*(Residual(channels) for _ in range(depth)))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.head(self.blocks(self.first(images)).mean((2, 3)))
        return out


class UNet(nn.Module):
    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU())
        self.bottom = nn.Sequential(nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.last = nn.Sequential(nn.Conv2d(2 * channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        high = self.down(images)
        low = self.up(self.bottom(F.max_pool2d(high, 2)))
        out: Tensor = self.last(torch.cat([high, low], 1))
        return out


class Mixture(nn.Module):
    """Four deep experts of sigmoids and a router."""

    def __init__(self, depth: int = 10) -> None:
        super().__init__()
        self.router = nn.Linear(64, 4)
        self.experts = nn.ModuleList(plain(depth, nn.Sigmoid, outputs=64) for _ in range(4))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        share = self.router(x).softmax(-1)
        mixed = sum(share[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        out: Tensor = self.head(mixed)
        return out


class Denoiser(nn.Module):
    """Diffusion: the noise is predicted from noisy data and the time."""

    def __init__(self, depth: int = 12) -> None:
        super().__init__()
        self.time, self.first = nn.Embedding(10, 64), nn.Linear(64, 64)
        self.body, self.last = plain(depth, nn.Tanh, outputs=64), nn.Linear(64, 64)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        out: Tensor = self.last(self.body(self.first(x) + self.time(t)))
        return out


class Siamese(nn.Module):
    def __init__(self, depth: int = 12) -> None:
        super().__init__()
        self.body = plain(depth, outputs=16)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return (self.body(first) - self.body(second)).norm(dim=-1)


def contrastive(distance: Tensor, same: Tensor) -> Tensor:
    return torch.where(same, distance.square(), (1 - distance).clamp_min(0).square()).mean()


def scaled(model: nn.Module, factor: float) -> nn.Module:
    """The model with all matrices multiplied."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(factor)
    return model


def with_dead_biases(model: nn.Module) -> nn.Module:
    """The model with biases of -10 in all linear layers but the head."""
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and name != "head":
                module.bias.fill_(-10.0)
    return model


def applied_and_pasted(step: Prescription, model: nn.Module, batch: Any) -> tuple[nn.Module, nn.Module] | None:
    """Two copies, one changed by the step and one by its code; None where the step does not apply."""
    applied, pasted = copy.deepcopy(model), copy.deepcopy(model)
    try:
        step.apply_(applied, batch)
    except ValueError:
        return None
    exec(step.code, {"torch": torch, "orthoscope": orthoscope, "model": pasted, "batch": batch})
    assert repr(applied) == repr(pasted)
    return applied, pasted
