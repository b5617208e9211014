"""Autocast is switched off, double precision keeps complex numbers, and plain tensors are told from all others."""

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from orthoscope.linalg.precision import full_precision, has_plain_values, to_double


def test_full_precision_switches_autocast_off_and_back() -> None:
    matrix = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision("cpu"):
            assert (matrix @ matrix).dtype == torch.float32
        assert (matrix @ matrix).dtype == torch.bfloat16
    with full_precision("meta"):
        assert (matrix.to("meta") @ matrix.to("meta")).dtype == torch.float32


def test_double_precision_keeps_complex_numbers() -> None:
    types = {torch.bfloat16: torch.float64, torch.float64: torch.float64, torch.complex64: torch.complex128}
    for given, wanted in types.items():
        assert to_double(torch.zeros(2, dtype=given)).dtype == wanted


class Subclass(Tensor):
    pass


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, where forward mode is loaded
def test_only_plain_tensors_have_plain_values() -> None:
    plain = torch.ones(2)
    assert has_plain_values(plain)
    assert has_plain_values(nn.Parameter(plain, requires_grad=False))
    tracked = plain.clone().requires_grad_()
    assert not has_plain_values(tracked)
    with torch.no_grad():
        assert has_plain_values(tracked)
    assert not has_plain_values(plain.to("meta"))
    assert not has_plain_values(plain.as_subclass(Subclass))
    with FlopCounterMode(display=False):
        assert not has_plain_values(plain)
    seen: list[bool] = []

    def noted(x: Tensor) -> Tensor:
        seen.append(has_plain_values(x))
        return x.sin()

    torch.vmap(noted)(plain)
    torch.func.grad(lambda x: noted(x).sum())(plain)
    torch.func.jvp(noted, (plain,), (plain,))
    make_fx(noted)(plain)
    assert seen == [False] * 4
