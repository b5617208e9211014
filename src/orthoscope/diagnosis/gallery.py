"""Networks to look at without any code or data: the sick, the healthy, and those that variance tools call healthy."""

from orthoscope.diagnosis.specimens import Specimen

GALLERY: tuple[Specimen, ...] = (
    Specimen(
        "mlp(depth=50, activation=relu, init=he, bias=True, bias_std=0.4)",
        "ReLU 50, variance 1 everywhere",
        samples=100,
        unit_variance=True,
    ),
    Specimen("mlp(depth=50, activation=relu, init=he)", "ReLU 50, He weights", samples=100),
    Specimen(
        "mlp(depth=50, activation=relu, init=torch, bias=True)",
        "ReLU 50, PyTorch's weights",
        samples=100,
    ),
    Specimen("mlp(depth=20, activation=sigmoid, init=xavier)", "sigmoid 20, Xavier weights", samples=100),
    Specimen("mlp(depth=50, activation=tanh, init=xavier)", "tanh 50, Xavier weights", samples=100),
    Specimen(
        "mlp(depth=200, width=512, activation=identity, norm=batch, init=gaussian)",
        "batch norm 200, batch of 8",
        samples=8,
    ),
    Specimen("mlp(depth=50, activation=relu, norm=batch)", "batch norm 50, ReLU", samples=100),
    Specimen(
        "mlp(depth=50, activation=tanh, gain=0.3, init=orthogonal)",
        "tanh 50, gain 0.3, orthogonal",
        samples=100,
    ),
    Specimen(
        "mlp(depth=50, activation=tanh, gain=0.3, norm=batch, init=orthogonal)",
        "tanh 50, orthogonal, batch norm",
        samples=100,
    ),
    Specimen(
        "mlp(depth=50, activation=relu, norm=layer, residual=True, residual_scale=0.2)",
        "residual 50, layer norm, ReLU",
        samples=100,
    ),
    Specimen("convnet(depth=20, channels=32, init=he)", "convolutions 20, He weights", samples=32),
    Specimen("transformer(depth=8, width=64, heads=4)", "transformer 8, pre-norm", samples=32),
)
