"""Which parameters of a model follow Muon, and which matrices they hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import is_lazy

from orthoscope.layers.selection import Include, embedding_parameters, layer_name, matches, selected
from orthoscope.optim.muon.views import MatrixView

# Names of a model's children that hold an output layer, in torchvision, timm and transformers.
_OUTPUTS = (
    *("head", "heads", "head_dist", "aux_head", "lm_head", "multiple_choice_head", "last_linear", "score", "logits"),
    *("classifier", "aux_classifier", "cls_classifier", "distillation_classifier", "cls", "qa_outputs"),
    *("output_layer", "embed_out", "unembed"),
)
# Names of output layers in ResNet and GIT that are hidden layers elsewhere, as in (conv, fc, head).
_PERHAPS_OUTPUTS = ("fc", "fc_out", "output")
# Names by which DistributedDataParallel and torch.compile wrap a model.
_WRAPPERS = ("module", "_orig_mod")
# Names, in upper or lower case, of linear layers that hold query, key and value in this order if they have three
# outputs per input.
_FUSED = ("qkv", "wqkv", "qkv_proj", "to_qkv", "in_proj_qkv", "c_attn")


def muon_parameter_groups(
    model: nn.Module,
    include: Include = None,
    exclude: Include = None,
    views: Mapping[str, MatrixView] | None = None,
) -> list[dict[str, Any]]:
    """Split the parameters of a model into the matrices of hidden layers, for Muon, and the rest, for its AdamW.

    Matrices are the weights of linear, convolution and recurrent layers and of attention (`layer_views`). The rest are
    biases, norms, embeddings and weights shared with one, output layers, weights under a parametrization, and
    parameters of other layers.

    Output layers cannot be identified with certainty. Taken is the last layer in every child of the model whose name
    means an output: `head`, `lm_head`, `classifier` and the like; `fc`, `fc_out` and `output` only if no layers are
    defined after them. A model without such a child loses its last layer in order of definition. So give `exclude=()`
    for a base model without a head (`GPT2Model`, `nn.Transformer`), and name by `exclude` a second head with another
    name (`"policy"`, `"value"`).

    Fused projections are recognized as three matrices under the names `qkv`, `Wqkv`, `qkv_proj`, `to_qkv`,
    `in_proj_qkv` and `c_attn` with three outputs per input. Others are one matrix unless `views` says otherwise:

    - `query_key_value`, often interleaved head by head: `{"*.query_key_value": MatrixView(parts=3 * heads)}`;
    - grouped-query attention, cut into heads: `{"*.qkv_proj": MatrixView(parts=heads + 2 * key_value_heads)}`;
    - `kv` and `gate_up_proj`: `{"*.kv": MatrixView(parts=2), "*.gate_up_proj": MatrixView(parts=2)}`;
    - experts in one tensor: `{"*.experts.weight": MatrixView(batched=True)}`.

    Args:
        model: The model whose parameters are split.
        include: Shell patterns for names of layers or of their weights, as in `"encoder.*"`, or a function of a
            layer's name and the layer. Only what it selects follows Muon, output layers too.
        exclude: The same for what follows AdamW, in addition to the output layers; `()` excludes nothing, not even
            them.
        views: The matrices of parameters, by patterns; the last match counts. It admits parameters of layers that are
            not known, and embeddings.

    Returns:
        One or two parameter groups with `params`, `param_names` and `use_muon`; the first also has `views`.

    Raises:
        TypeError: If `model` is no module or a view no `MatrixView`.
        ValueError: If a pattern matches nothing, a parameter cannot be cut as its view says or has no shape yet, or no
            parameter is left for Muon.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected an nn.Module, got {type(model).__name__}: pass the model")
    check_views(views or {})
    candidates = _candidates(model, views or {})
    chosen = _chosen(model, candidates, include, exclude)
    if not chosen:
        have = f"it has {', '.join(candidates)}" if candidates else "it has no matrix of a known layer"
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


def check_views(views: Mapping[str, object]) -> None:
    """Raise if a value is no `MatrixView`."""
    for pattern, view in views.items():
        if not isinstance(view, MatrixView):
            raise TypeError(f"views[{pattern!r}] must be a MatrixView, such as MatrixView(parts=3), got {view!r}")


def _candidates(model: nn.Module, views: Mapping[str, MatrixView]) -> dict[str, MatrixView]:
    """The parameters that may follow Muon, in the order of the model."""
    known, embeddings = layer_views(model), embedding_parameters(model)
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


def _chosen(model: nn.Module, candidates: dict[str, MatrixView], include: Include, exclude: Include) -> list[str]:
    if exclude is not None and not isinstance(exclude, str) and not callable(exclude):
        exclude = list(exclude)  # an iterator can be read only once
    chosen = list(candidates) if include is None else selected(model, candidates, include)
    left_out = set() if exclude is None else set(selected(model, candidates, exclude))
    if include is None and exclude != []:
        left_out |= output_layers(model)
    return [name for name in chosen if name not in left_out and layer_name(name) not in left_out]


def layer_views(model: nn.Module) -> dict[str, MatrixView]:
    """Return the view of every weight matrix of a known layer, by parameter name; not of parametrized weights.

    Linear layers and convolutions have one matrix, grouped convolutions one per group, recurrent layers one per gate,
    `nn.MultiheadAttention` and linear layers with the name and size of fused query, key and value three. `Conv1D` of
    transformers is transposed. Any other fused layer counts as one matrix, since its name does not determine
    the order of its rows.
    """
    return {
        f"{name}.{own}" if name else own: view
        for name, module in model.named_modules()
        for own, view in _own_views(name.rpartition(".")[2], module)
    }


def output_layers(model: nn.Module) -> set[str]:
    """Return the names of the layers that are taken for outputs, as `muon_parameter_groups` describes."""
    layers = [name for name, module in model.named_modules() if _is_layer(module)]
    last = {_child(name): name for name in layers}  # of several layers in a child, the last stays
    outputs = {name for child, name in last.items() if child in _OUTPUTS}
    # SelecSLS of timm has both: convolutions called `head`, and after them `fc`.
    if layers and (not outputs or _child(layers[-1]) in _PERHAPS_OUTPUTS):
        outputs.add(layers[-1])
    return outputs


def _own_views(name: str, module: nn.Module) -> Iterator[tuple[str, MatrixView]]:
    own = dict(module.named_parameters(recurse=False))
    if isinstance(module, _ConvTransposeNd) and "weight" in own:
        yield "weight", MatrixView(groups=module.groups, transposed=True)
    elif isinstance(module, _ConvNd) and "weight" in own:
        yield "weight", MatrixView(parts=module.groups)
    elif isinstance(module, nn.Linear) and "weight" in own:
        yield "weight", MatrixView(parts=_fused(name, module.out_features, module.in_features))
    elif _is_transposed_linear(module) and "weight" in own:
        inputs, outputs = own["weight"].shape
        yield "weight", MatrixView(parts=_fused(name, outputs, inputs), transposed=True)
    elif isinstance(module, nn.MultiheadAttention):
        projections = {"in_proj_weight": 3, "q_proj_weight": 1, "k_proj_weight": 1, "v_proj_weight": 1}
        yield from ((key, MatrixView(parts=parts)) for key, parts in projections.items() if key in own)
    elif isinstance(module, nn.RNNBase | nn.RNNCellBase):
        for key, weight in own.items():
            if weight.ndim == 2:  # (gates·hidden, …), or the projection (out, hidden)
                yield key, MatrixView(parts=max(1, weight.shape[0] // module.hidden_size))


def _fused(name: str, outputs: int, inputs: int) -> int:
    return 3 if name.lower() in _FUSED and outputs == 3 * inputs else 1


def _is_transposed_linear(module: nn.Module) -> bool:
    """Whether it is a `transformers.pytorch_utils.Conv1D`, without importing transformers."""
    # Base classes count: `fully_shard` replaces the class of a layer by a derived one.
    return any(kind.__name__ == "Conv1D" for kind in type(module).__mro__) and hasattr(module, "nf")


def _is_layer(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | _ConvNd) or _is_transposed_linear(module)


def _child(name: str) -> str:
    """The name of the model's child that a layer is in, below wrappers."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in _WRAPPERS:
        parts = parts[1:]
    return parts[0]
