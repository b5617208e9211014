"""What is known of layers: which of their parameters are matrices, which are embeddings, and which layers are last."""

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from orthoscope.optim.matrix_views import MatrixView

# Children of a model, by these names, hold an output layer: torchvision, timm and transformers.
_OUTPUTS = (
    *("head", "heads", "head_dist", "aux_head", "lm_head", "multiple_choice_head", "last_linear", "score", "logits"),
    *("classifier", "aux_classifier", "cls_classifier", "distillation_classifier", "cls", "qa_outputs"),
    *("output_layer", "embed_out", "unembed"),
)
# Children by these names do so in ResNet and GIT, and are hidden layers elsewhere: (conv, fc, head).
_PERHAPS_OUTPUTS = ("fc", "fc_out", "output")
# Around a model: DistributedDataParallel, torch.compile.
_WRAPPERS = ("module", "_orig_mod")
# Linear layers, by these names in upper or lower case, hold query, key and value in this order, if they have three
# outputs an input.
_FUSED = ("qkv", "wqkv", "qkv_proj", "to_qkv", "in_proj_qkv", "c_attn")


def layer_views(model: nn.Module) -> dict[str, MatrixView]:
    """The matrices of all layers that multiply by one, by the name of the parameter; parametrized ones have none.

    A linear layer has its weight, cut in three if it has three outputs an input and the name of fused query, key and
    value: `qkv`, `Wqkv`, `qkv_proj`, `to_qkv`, `in_proj_qkv` or `c_attn`, in upper or lower case. Convolutions are cut
    into their groups, the gates of recurrent layers are matrices of their own, and so are the three of
    `nn.MultiheadAttention`. `Conv1D` of transformers is transposed.

    Any other fused layer is one matrix here, since its name does not tell how it is laid out: `query_key_value` (often
    interleaved head by head), `qkv_proj` and the like of grouped-query attention (keys and values smaller than
    queries), `kv`, `gate_up_proj`.
    """
    return {
        f"{name}.{own}" if name else own: view
        for name, module in model.named_modules()
        for own, view in _own_views(name.rpartition(".")[2], module)
    }


def embedding_weights(model: nn.Module) -> set[int]:
    """The ids of parameters that are looked up by index; a head tied to one is the same parameter."""
    tables = (nn.Embedding, nn.EmbeddingBag)
    return {id(own) for part in model.modules() if isinstance(part, tables) for own in part.parameters(recurse=False)}


def output_layers(model: nn.Module) -> set[str]:
    """The names of the layers taken to be outputs, by the names of the model's children, each in order of definition.

    The last layer in every child with a name that means an output, `head`, `lm_head`, `classifier` or the like. Of a
    child called `fc`, `fc_out` or `output`, which may be hidden, only if no layers come after it. The last layer of all
    where no child is named so.
    """
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
    """`transformers.pytorch_utils.Conv1D`, without importing it."""
    # Among the bases too: fully_shard replaces the class of a layer by one derived from it.
    return any(kind.__name__ == "Conv1D" for kind in type(module).__mro__) and hasattr(module, "nf")


def _is_layer(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | _ConvNd) or _is_transposed_linear(module)


def _child(name: str) -> str:
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in _WRAPPERS:
        parts = parts[1:]
    return parts[0]
