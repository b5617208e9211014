"""Which weights of a model are meant, by a penalty or by an optimizer on a manifold."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

WeightLayer = nn.Linear | _ConvNd
Include = str | Iterable[str] | Callable[[str, nn.Module], bool] | None


def selected_layers(model: nn.Module, include: Include) -> dict[str, WeightLayer]:
    """The linear and convolution layers that `include` selects, by the names of their weights; never none.

    A pattern or name is of a layer ("blocks.*") or of its weight ("head.weight"); each must match something.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"weights are chosen from an nn.Module, got {type(model).__name__}: pass the model")
    candidates = _distinct_layers(model)
    if include is None:
        # A head tied to an embedding has a row for every word, many more than can be orthogonal.
        embeddings = embedding_parameters(model)
        names = [name for name, layer in candidates.items() if id(layer._parameters.get("weight")) not in embeddings]
    else:
        names = selected(model, candidates, include)
    chosen = {name: candidates[name] for name in names}
    if not chosen:
        have = f"it has {', '.join(candidates)}" if candidates else "it has no nn.Linear and no nn.Conv* layer"
        raise ValueError(f"no weight of {type(model).__name__} is selected: {have}")
    for name, layer in chosen.items():
        if is_lazy(layer.weight):
            raise ValueError(f"{name} has no shape yet: run one batch through the model first")
    return chosen


def _distinct_layers(model: nn.Module) -> dict[str, WeightLayer]:
    """All candidates; of layers that share a parameter, the first."""
    layers: dict[str, WeightLayer] = {}
    seen: set[int] = set()
    for name, module in model.named_modules():
        if not isinstance(module, (nn.Linear, _ConvNd)):
            continue
        if not parametrize.is_parametrized(module, "weight"):
            if id(module.weight) in seen:
                continue
            seen.add(id(module.weight))
        layers[f"{name}.weight" if name else "weight"] = module
    return layers


def embedding_parameters(model: nn.Module) -> set[int]:
    """The ids of the parameters of embeddings; a head tied to one has the same parameter."""
    tables = (nn.Embedding, nn.EmbeddingBag)
    return {id(own) for part in model.modules() if isinstance(part, tables) for own in part.parameters(recurse=False)}


def selected(
    model: nn.Module, names: Iterable[str], selection: str | Iterable[str] | Callable[[str, nn.Module], bool]
) -> list[str]:
    """The names of weights that a selection matches; each of its patterns must match one."""
    if callable(selection):
        return [name for name in names if selection(layer_name(name), model.get_submodule(layer_name(name)))]
    patterns = [selection] if isinstance(selection, str) else list(selection)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            have = ", ".join(names) or "none"
            raise ValueError(f"{pattern!r} matches no weight of a known layer: choose among {have}")
    return [name for name in names if any(matches(name, pattern) for pattern in patterns)]


def matches(name: str, pattern: str) -> bool:
    """Whether a shell pattern means a parameter, by its own name or by that of its layer."""
    return fnmatchcase(name, pattern) or fnmatchcase(layer_name(name), pattern)


def layer_name(name: str) -> str:
    """The name of the module that a parameter belongs to; empty for the model itself."""
    return name.rpartition(".")[0]
