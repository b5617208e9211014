"""Which parameters of a model Muon moves, and as which matrices: groups for the optimizer."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from orthoscope.layers.selection import Include, layer_name, matches
from orthoscope.optim.layer_views import embedding_weights, layer_views, output_layers
from orthoscope.optim.matrix_views import MatrixView


def muon_parameter_groups(
    model: nn.Module,
    include: Include = None,
    exclude: Include = None,
    views: Mapping[str, MatrixView] | None = None,
) -> list[dict[str, Any]]:
    """Groups for `Muon`: the matrices of hidden layers, and the rest, if there is any, for its AdamW.

    Matrices are the weights of linear, convolution and recurrent layers and of attention (`layer_views`), unless an
    embedding has the same weight. Biases, norms, embeddings, parameters that belong to no such layer and those under a
    parametrization, an orthogonal one for example, are the rest.

    `include` and `exclude` hold one or several shell patterns for names of layers or of their weights, as in
    `"encoder.*"`, or are a function of a layer's name and the layer. Output layers are left to AdamW, beside what
    `exclude` leaves to it, unless `include` selects them or `exclude=()`, which leaves out nothing.

    Which layers are outputs cannot be read off a model with certainty. Taken is the last one in every child of the
    model with a name that means an output: `head`, `lm_head`, `classifier` or the like; `fc`, `fc_out` and `output`
    only if no layers are defined after them. A model without such a child loses its last layer in order of definition.
    So give `exclude=()` for a base model without a head (`GPT2Model`, `nn.Transformer`), and name by `exclude` a second
    head that is called otherwise (`"policy"`, `"value"`).

    `views` says which matrices a parameter holds, by patterns too, where that is not recognised. Known as three are
    `qkv`, `Wqkv`, `qkv_proj`, `to_qkv`, `in_proj_qkv` and `c_attn` with three outputs an input. Not known, so one
    matrix until it is said, are for example

    - `query_key_value`, often interleaved head by head: `{"*.query_key_value": MatrixView(parts=3 * heads)}`;
    - grouped-query attention, cut into heads: `{"*.qkv_proj": MatrixView(parts=heads + 2 * key_value_heads)}`;
    - `kv` and `gate_up_proj`: `{"*.kv": MatrixView(parts=2), "*.gate_up_proj": MatrixView(parts=2)}`;
    - experts in one tensor: `{"*.experts.weight": MatrixView(batched=True)}`.

    It also admits parameters that are of no known layer, so embeddings as well.

    The groups hold `param_names` too, by which the optimizer speaks of a weight; torch asks that all groups do.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"parameters are chosen from an nn.Module, got {type(model).__name__}: pass the model")
    _require_views(views or {})
    candidates = _candidates(model, views or {})
    chosen = _chosen(model, candidates, include, exclude)
    if not chosen:
        have = f"it has {', '.join(candidates)}" if candidates else "it has no matrix of a layer that is known"
        raise ValueError(
            f"no parameter of {type(model).__name__} is left for Muon ({have}, output layers are left out): choose"
            " with include, or use torch.optim.AdamW"
        )
    parameters = dict(model.named_parameters())
    rest = {name: parameter for name, parameter in parameters.items() if name not in chosen}
    groups: list[dict[str, Any]] = [
        {
            "params": [parameters[name] for name in chosen],
            "param_names": list(chosen),
            "use_muon": True,
            "views": [candidates[name].plain for name in chosen],
        }
    ]
    if rest:
        groups.append({"params": list(rest.values()), "param_names": list(rest), "use_muon": False})
    return groups


def _candidates(model: nn.Module, views: Mapping[str, MatrixView]) -> dict[str, MatrixView]:
    """The parameters that Muon may move, in the order of the model."""
    known, embeddings = layer_views(model), embedding_weights(model)
    matched: set[str] = set()
    candidates: dict[str, MatrixView] = {}
    for name, parameter in model.named_parameters():
        own = [pattern for pattern in views if matches(name, pattern)]
        matched.update(own)
        if own and parameter.ndim >= 2:
            candidates[name] = views[own[-1]]
        elif name in known and id(parameter) not in embeddings:
            candidates[name] = known[name]
        else:
            continue
        if is_lazy(parameter):
            raise ValueError(f"{name} has no shape yet: run one batch through the model first")
        try:
            candidates[name].shape(parameter.shape)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    for pattern in views:
        if pattern not in matched:
            raise ValueError(
                f"{pattern!r} in views matches no parameter of {type(model).__name__}: correct the pattern"
            )
    return candidates


def _require_views(views: Mapping[str, object]) -> None:
    for pattern, view in views.items():
        if not isinstance(view, MatrixView):
            raise TypeError(f"views[{pattern!r}] must be a MatrixView, such as MatrixView(parts=3), got {view!r}")


def _chosen(model: nn.Module, candidates: dict[str, MatrixView], include: Include, exclude: Include) -> list[str]:
    if exclude is not None and not isinstance(exclude, str) and not callable(exclude):
        exclude = list(exclude)  # read twice
    chosen = list(candidates) if include is None else _selected(model, candidates, include)
    left_out = set() if exclude is None else set(_selected(model, candidates, exclude))
    if include is None and exclude != []:
        left_out |= output_layers(model)
    return [name for name in chosen if name not in left_out and layer_name(name) not in left_out]


def _selected(
    model: nn.Module, names: Iterable[str], selection: str | Iterable[str] | Callable[..., bool]
) -> list[str]:
    """The names that a selection means; each of its patterns must mean something."""
    if callable(selection):
        return [name for name in names if selection(layer_name(name), model.get_submodule(layer_name(name)))]
    patterns = [selection] if isinstance(selection, str) else list(selection)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            raise ValueError(f"{pattern!r} matches no matrix: choose among {', '.join(names) or 'none'}")
    return [name for name in names if any(matches(name, pattern) for pattern in patterns)]
