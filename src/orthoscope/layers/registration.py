"""How a parametrization is put on a weight: on a tensor of its own, and with all that torch leaves out."""

from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.layers.pickling import make_picklable


def register(module: nn.Module, name: str, parametrization: nn.Module, beginning: Tensor) -> None:
    """Parametrize a weight that begins with a given value; if that fails, the module is as it was.

    torch would write the coordinates into the tensor that was the weight. Here they are a fresh one: another module
    that shares the weight, or an optimizer that holds it, keeps what it has.
    """
    weight = getattr(module, name)
    fresh: Tensor = beginning.detach().clone()
    if isinstance(weight, nn.Parameter):
        fresh = nn.Parameter(fresh, requires_grad=weight.requires_grad)
    setattr(module, name, fresh)
    try:
        parametrize.register_parametrization(module, name, parametrization, unsafe=weight.is_meta)
    except Exception:
        setattr(module, name, weight)
        raise
    if weight.dtype != beginning.dtype:
        module.parametrizations[name].to(weight.dtype)  # type: ignore[index]
    make_picklable(module)
