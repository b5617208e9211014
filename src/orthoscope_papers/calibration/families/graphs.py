"""Graph networks: messages are means over neighbors (GCN), sums of own and theirs (GIN), or weighted by attention."""

import torch
from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.tasks import CLASSES, NEIGHBORS

_WIDTH = 64
_FEATURES = 3


class _Convolution(nn.Module):
    """GCN: a linear layer of the mean over a node and its neighbors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.act = nn.ReLU()

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.act(self.norm(self.lin(edges @ x)))


class _Isomorphism(nn.Module):
    """GIN: two linear layers of a node plus the sum of its neighbors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(()))
        self.lin1 = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.act1 = nn.ReLU()
        self.lin2 = nn.Linear(width, width)
        self.act2 = nn.ReLU()

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = self.lin1((1 + self.eps) * x + NEIGHBORS * (edges @ x))
        hidden = self.act1(self.norm(hidden.flatten(0, 1)).view_as(hidden))
        return self.act2(self.lin2(hidden))


class _Attending(nn.Module):
    """GAT: neighbors are weighted by a softmax of what both nodes score."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.source = nn.Linear(width, 1)
        self.target = nn.Linear(width, 1)
        self.lin = nn.Linear(width, width)
        self.act = nn.ELU()

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = self.lin(self.norm(x))
        scores = nn.functional.leaky_relu(self.target(hidden) + self.source(hidden).mT, 0.2)
        weights = scores.masked_fill(edges == 0, -1e9).softmax(-1)
        return x + self.act(weights @ hidden)


class GraphNetwork(nn.Module):
    """Layers of messages, the mean and the maximum over nodes, and a linear head."""

    def __init__(self, layer: type[nn.Module], count: int) -> None:
        super().__init__()
        self.stem = nn.Linear(_FEATURES, _WIDTH)
        self.blocks = nn.ModuleList(layer(_WIDTH) for _ in range(count))
        self.head = nn.Linear(2 * _WIDTH, CLASSES)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        x = self.stem(nodes)
        for block in self.blocks:
            x = block(x, edges)
        return self.head(torch.cat([x.mean(1), x.amax(1)], dim=-1))


def gcn(settings: Settings) -> nn.Module:
    """Kipf and Welling's, with layer norm."""
    return GraphNetwork(_Convolution, 3 * settings.depth)


def gin(settings: Settings) -> nn.Module:
    """Xu et al.'s, with batch norm."""
    return GraphNetwork(_Isomorphism, 3 * settings.depth)


def gat(settings: Settings) -> nn.Module:
    """Velickovic et al.'s, one head, with skips."""
    return GraphNetwork(_Attending, 3 * settings.depth)


GRAPHS = (
    Family("gcn", "graph", "graphs", gcn),
    Family("gin", "graph", "graphs", gin),
    Family("gat", "graph", "graphs", gat),
)
