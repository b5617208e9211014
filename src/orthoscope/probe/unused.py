"""Weight layers without a gradient: whether the result depends on them, found by disturbing their outputs.

A head that the loss does not see and a part that was detached look the same to autograd: neither gets a gradient. But
a disturbed head changes nothing, and a disturbed part of the network does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.probe.samples import mapped

_MOST = 8  # layers that are disturbed one by one
_SAME = 1e-6  # relative difference of two results that are the same to rounding


def unused_modules(
    modules: Mapping[str, nn.Module], run: Callable[[], Tensor], generator: torch.Generator
) -> frozenset[str]:
    """Return those of the modules whose outputs do not change the result.

    All are disturbed together first; only if that changes the result, one by one, as far as there are few of them.

    Args:
        modules: By name.
        run: Runs the model once and returns the result; the same every time.
        generator: Draws the disturbances.
    """
    if not modules:
        return frozenset()
    plain = _fingerprint(run)

    def changes(names: Sequence[str]) -> bool:
        handles = [modules[name].register_forward_hook(_disturbing(generator)) for name in names]
        try:
            # The sum may cancel to nearly nothing, the norm, which is last, does not.
            rounding = _SAME * float(plain[-1].nan_to_num())
            return not torch.allclose(_fingerprint(run), plain, rtol=_SAME, atol=rounding, equal_nan=True)
        finally:
            for handle in handles:
                handle.remove()

    names = list(modules)
    if not changes(names):
        return frozenset(names)
    return frozenset(name for name in names[-_MOST:] if len(names) > 1 and not changes([name]))


def _disturbing(generator: torch.Generator) -> Callable[[nn.Module, Any, Any], Any]:
    def disturbed(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = torch.randn(tensor.shape, generator=generator, device="cpu").to(tensor)
        return tensor + noise * (1 + tensor.detach().abs().amax() if tensor.numel() else 1)

    def hook(_: nn.Module, inputs: Any, output: Any) -> Any:
        return mapped(output, disturbed)

    return hook


def _fingerprint(run: Callable[[], Tensor]) -> Tensor:
    """Sum and norm of the result, in float64."""
    with torch.no_grad():
        result = run().detach().double()
        return torch.stack([result.sum(), torch.linalg.vector_norm(result)]).cpu()
