"""Networks to look at without any code or data: the sick, the healthy, and those that variance tools call healthy."""

from orthoscope.diagnosis.specimens import Specimen

GALLERY: tuple[Specimen, ...] = (
    Specimen(
        "mlp(depth=50, activation=relu, init=he, bias=True, bias_std=0.5)",
        "ReLU with biases, variance 1 at every layer, 50 layers",
        samples=100,
        unit_variance=True,
    ),
    Specimen("mlp(depth=50, activation=relu, init=he)", "ReLU, He weights, 50 layers", samples=100),
    Specimen(
        "mlp(depth=50, activation=relu, init=torch, bias=True)",
        "ReLU, PyTorch's default weights, 50 layers",
        samples=100,
    ),
    Specimen(
        "mlp(depth=20, activation=sigmoid, init=xavier)", "sigmoid, Xavier weights, 20 layers", samples=100
    ),
    Specimen("mlp(depth=50, activation=tanh, init=xavier)", "tanh, Xavier weights, 50 layers", samples=100),
    Specimen(
        "mlp(depth=200, width=512, activation=identity, norm=batch, init=gaussian)",
        "batch norm, Gaussian weights, 200 layers, batch of 8",
        samples=8,
    ),
    Specimen("mlp(depth=50, activation=relu, norm=batch)", "batch norm, ReLU, 50 layers", samples=100),
    Specimen(
        "mlp(depth=50, activation=tanh, gain=0.3, init=orthogonal)",
        "tanh with gain 0.3, orthogonal weights, 50 layers",
        samples=100,
    ),
    Specimen(
        "mlp(depth=50, activation=tanh, gain=0.3, norm=batch, init=orthogonal)",
        "batch norm, tanh with gain 0.3, orthogonal weights, 50 layers",
        samples=100,
    ),
    Specimen(
        "mlp(depth=50, activation=relu, norm=layer, residual=True, residual_scale=0.2)",
        "residual ReLU with layer norm, 50 layers",
        samples=100,
    ),
    Specimen(
        "convnet(depth=20, channels=32, init=he)", "convolutions, ReLU, He weights, 20 layers", samples=32
    ),
    Specimen("transformer(depth=8, width=64, heads=4)", "pre-norm transformer, 8 blocks", samples=32),
)
