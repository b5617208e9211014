"""Questions to the graph of a forward pass: what a tensor was made from, and with which weights."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.autograd.graph import GradientEdge, Node


@dataclass(frozen=True)
class Ancestry:
    """The operations between a tensor and an earlier one that it was made from."""

    reached: bool  # whether it was made from it at all
    operations: frozenset[Node]  # all that came after the earlier one
    weights: bool  # whether a parameter took part


def ancestry(later: GradientEdge, earlier: GradientEdge) -> Ancestry:
    """How `later` was made from `earlier`.

    Operations carry the order in which they were called, so whatever has a smaller number cannot lead to it; it may
    still bring weights, as where all weights of a network are unpacked before its first layer.
    """
    origin, index = earlier.node, earlier.output_nr
    if later.node is origin:
        return Ancestry(later.output_nr == index, frozenset(), False)
    limit = origin._sequence_nr()
    seen: set[Node] = set()
    aside: set[Node] = set()
    reached = False
    todo = [later.node]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for parent, number in _parents(node):
            if parent is origin:
                reached = reached or number == index
            elif _is_leaf(parent) or parent._sequence_nr() < limit:
                aside.add(parent)
            else:
                todo.append(parent)
    return Ancestry(reached, frozenset(seen), _has_weights(aside, origin))


def _has_weights(nodes: set[Node], without: Node) -> bool:
    """Whether a parameter is among the nodes or what they were made from; not by way of `without`."""
    seen = {without}
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if _is_leaf(node) and isinstance(getattr(node, "variable", None), nn.Parameter):
            return True
        todo += [parent for parent, _ in _parents(node)]
    return False


def _is_leaf(node: Node) -> bool:
    """Whether a node stands for a tensor that nothing in the graph made: a parameter, or the sample."""
    return node.name() == "torch::autograd::AccumulateGrad"


def _parents(node: Node) -> Iterator[tuple[Node, int]]:
    for parent, number in node.next_functions:
        if parent is not None:
            yield parent, number
