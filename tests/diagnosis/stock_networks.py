"""Small networks as people write them: with zero-initialized gates, time embeddings and skips."""

import torch
from torch import Tensor, nn
from torch.nn import functional

import orthoscope
from orthoscope import State
from orthoscope.diagnosis import Diagnosis
from orthoscope.findings import Finding


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vectors(samples: int = 32, units: int = 24, seed: int = 0) -> Tensor:
    return torch.randn(samples, units, generator=seeded(seed))


def images(samples: int = 16, channels: int = 3, side: int = 8) -> Tensor:
    return torch.randn(samples, channels, side, side, generator=seeded(1))


def labels(samples: int, classes: int = 10) -> Tensor:
    return torch.randint(classes, (samples,), generator=seeded(2))


def finding(diagnosis: Diagnosis, check: str) -> Finding:
    return next(one for one in diagnosis.findings if one.check == check)


def found(diagnosis: Diagnosis) -> set[str]:
    return {one.check for one in diagnosis.findings if one.state is State.FOUND}


def noted(diagnosis: Diagnosis, words: str) -> bool:
    return any(words in note for note in diagnosis.notes)


def classified(model: nn.Module, inputs: Tensor, **options: object) -> Diagnosis:
    """The diagnosis with cross entropy on ten random classes."""
    return orthoscope.diagnose(model, (inputs, labels(len(inputs))), functional.cross_entropy, **options)


class ResidualNetwork(nn.Module):
    """A convolutional residual network; the last scale of every block is zero."""

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            nn.init.zeros_(self.bn2.weight)

        def forward(self, hidden: Tensor) -> Tensor:
            return functional.relu(hidden + self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(hidden))))))

    def __init__(self, channels: int = 16, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.blocks = nn.Sequential(*(self.Block(channels) for _ in range(blocks)))
        self.head = nn.Linear(channels, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(inputs)).mean((2, 3)))


class ScaledNetwork(nn.Module):
    """Pre-norm residual blocks of linear layers with LayerScale."""

    class Block(nn.Module):
        def __init__(self, width: int, scale: float) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
            self.gamma = nn.Parameter(torch.full((width,), scale))

        def forward(self, hidden: Tensor) -> Tensor:
            return hidden + self.gamma * self.outer(functional.gelu(self.inner(self.norm(hidden))))

    def __init__(self, width: int = 24, blocks: int = 6, scale: float = 1e-6) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(self.Block(width, scale) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(inputs)))


class DiffusionNetwork(nn.Module):
    """Predicts noise: the last layer of every block's time embedding and the output layer start at zero."""

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.SiLU(), nn.Linear(width, width))
            self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
            nn.init.zeros_(self.time[1].weight)
            nn.init.zeros_(self.time[1].bias)

        def forward(self, hidden: Tensor, time: Tensor) -> Tensor:
            return hidden + self.second(functional.silu(self.first(functional.silu(hidden)) + self.time(time)))

    def __init__(self, width: int = 24, blocks: int = 4) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(self.Block(width) for _ in range(blocks))
        self.out = nn.Linear(width, width)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, noisy: Tensor, time: Tensor) -> Tensor:
        embedded = self.time(time[:, None])
        for block in self.blocks:
            noisy = block(noisy, embedded)
        return self.out(functional.silu(noisy))


class AdaptiveNetwork(nn.Module):
    """adaLN-zero: shift, scale and gate of every block come from a layer that starts at zero; so does the output."""

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width, elementwise_affine=False)
            self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
            self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 3 * width))
            nn.init.zeros_(self.modulation[1].weight)
            nn.init.zeros_(self.modulation[1].bias)

        def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
            shift, scale, gate = self.modulation(condition).chunk(3, -1)
            return hidden + gate * self.outer(functional.gelu(self.inner(self.norm(hidden) * (1 + scale) + shift)))

    def __init__(self, width: int = 24, blocks: int = 4) -> None:
        super().__init__()
        self.embed, self.condition = nn.Linear(width, width), nn.Linear(8, width)
        self.blocks = nn.ModuleList(self.Block(width) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, width)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        hidden, condition = self.embed(inputs), self.condition(condition)
        for block in self.blocks:
            hidden = block(hidden, condition)
        return self.head(self.norm(hidden))


class SkipNetwork(nn.Module):
    """Plain residual blocks of two linear layers and a ReLU."""

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner, self.activation, self.outer = nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)

        def forward(self, hidden: Tensor) -> Tensor:
            return hidden + 0.5 * self.outer(self.activation(self.inner(hidden)))

    def __init__(self, width: int = 24, blocks: int = 6) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(self.Block(width) for _ in range(blocks)))
        self.head = nn.Linear(width, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.blocks(inputs))


def plain_network(depth: int = 3, width: int = 24, bias: bool = True) -> nn.Sequential:
    """Linear layers with ReLU between them, ten outputs."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))
