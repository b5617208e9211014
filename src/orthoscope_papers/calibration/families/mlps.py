"""Fully connected networks: plain, with batch norm, and residual."""

from torch import nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import Residual, Stack
from orthoscope_papers.calibration.tasks import CLASSES, SIDE

_WIDTH = 128


def mlp(settings: Settings) -> nn.Module:
    """ReLU layers, as PyTorch draws them."""
    blocks = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU()) for _ in range(4 * settings.depth)]
    stem = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, _WIDTH), nn.ReLU())
    return Stack(stem, blocks, nn.Identity(), nn.Linear(_WIDTH, CLASSES))


def mlp_batch_norm(settings: Settings) -> nn.Module:
    """Batch norm before every ReLU; after it if moved."""

    def block() -> nn.Module:
        norm, act = nn.BatchNorm1d(_WIDTH), nn.ReLU()
        return nn.Sequential(nn.Linear(_WIDTH, _WIDTH), *((act, norm) if settings.moved else (norm, act)))

    blocks = [block() for _ in range(4 * settings.depth)]
    stem = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, _WIDTH), nn.ReLU())
    return Stack(stem, blocks, nn.Identity(), nn.Linear(_WIDTH, CLASSES))


def residual_mlp(settings: Settings) -> nn.Module:
    """Pre-norm residual blocks of two layers, on the embedded digits."""
    blocks = [
        Residual(
            nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH)),
            _WIDTH,
            nn.LayerNorm(_WIDTH),
            after=settings.moved,
        )
        for _ in range(4 * settings.depth)
    ]
    stem = nn.Sequential(nn.Flatten(), nn.Linear(64, _WIDTH))
    return Stack(stem, blocks, nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, CLASSES))


MLPS = (
    Family("mlp", "mlp", "fashion-mnist", mlp, deepest=8),
    Family("mlp batch norm", "mlp", "fashion-mnist", mlp_batch_norm, movable=True, deepest=8),
    Family("residual mlp", "mlp", "digits", residual_mlp, movable=True, deepest=8),
)
