r"""Residual branches $h_{i+1} = s(h_i) + F(h_i)$, found in the autograd graph of a forward pass.

A sum is residual if one operand was computed from the other through weights (the skip is the identity), or both
were computed from the input of the module that adds, by separate paths (the skip is a projection: the first block of a
stage). Class names are not used.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn
from torch.autograd.graph import GradientEdge, Node

from orthoscope.probe.hooks import observable_modules
from orthoscope.probe.jacobians.additions import CalledModule, Point, Sum


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
    """Whether a node is a leaf of the graph: a parameter, or the input."""
    return node.name() == "torch::autograd::AccumulateGrad"


def _parents(node: Node) -> Iterator[tuple[Node, int]]:
    return ((parent, number) for parent, number in node.next_functions if parent is not None)


IDENTITY, PROJECTION, NONE = "identity", "projection", "none"


@dataclass(frozen=True)
class Branch:
    """One residual branch, from its input `start`, which the skip connection passes on, to its output `end`."""

    name: str
    start: Point
    end: Point
    skip: str  # identity, projection, or none
    result: Point  # the output of the block: the sum, after its activation if there is one
    summed: Point | None = None  # the sum, where an activation follows it
    activation: str = ""


def residual_branches(sums: Sequence[Sum], model: nn.Module) -> tuple[list[Branch], dict[str, str]]:
    """All of them in the order they ran, and for every module whose additions were not taken, why."""
    found: list[tuple[Sum, Branch]] = []
    left_out: dict[str, str] = {}
    for seen in sums:
        verdict = _judged(seen)
        if isinstance(verdict, Branch):
            found.append((seen, verdict))
        else:
            left_out.setdefault(seen.module, verdict)
    within = [(seen, outer) for seen, branch in found if (outer := _around(seen, branch, found)) is not None]
    for seen, outer in within:
        left_out.setdefault(seen.module, f"it is one of several branches that {outer.name or '(model)'} adds at once")
    found = [(seen, branch) for seen, branch in found if not any(seen is inner for inner, _ in within)]
    named = _named(found, dict(observable_modules(model)))
    taken = {seen.module for seen, _ in found}
    return named, {module: why for module, why in left_out.items() if module not in taken}


def module_branches(calls: Sequence[CalledModule], names: Sequence[str]) -> list[Branch]:
    """Whole modules as branches, without a skip, in the order they ran."""
    counts = Counter(call.name for call in calls)
    missing = [name for name in names if not counts[name]]
    if missing:
        raise ValueError(f"module {missing[0]!r} was never called: its parent uses it directly, or not at all")
    branches, turn = [], Counter[str]()
    for call in calls:
        turn[call.name] += 1
        if call.input is None or call.output is None:
            raise ValueError(
                f"module {call.name!r} is not given a floating tensor, or returns none, so that it has no Jacobian"
            )
        name = call.name if counts[call.name] == 1 else f"{call.name} (call {turn[call.name]})"
        branches.append(Branch(name, call.input, call.output, NONE, call.output))
    return branches


def _judged(seen: Sum) -> Branch | str:
    """The branch that ends in this sum, still without a name of its own, or why there is none."""
    left, right = seen.operands
    for start, end in ((left, right), (right, left)):
        path = ancestry(end.edge, start.edge)
        if path.reached and path.operations:
            if not path.weights:
                return "it adds a function of a tensor to that tensor, but no weight takes part"
            return _branch(seen, start, end, IDENTITY)
    if seen.around is None:
        return "its operands are not made from each other, nor from an input that can be differentiated"
    paths = [ancestry(operand.edge, seen.around.edge) for operand in seen.operands]
    if not all(path.reached for path in paths):
        return "it adds tensors of which neither is made from the other or from the input of the module"
    if paths[0].operations & paths[1].operations:
        return "it adds two functions of one tensor, and neither is a skip connection"
    longer = max((0, 1), key=lambda index: len(paths[index].operations))  # the other path is its shortcut
    if not paths[longer].weights:
        return "it adds two functions of its input, but no weight takes part"
    return _branch(seen, seen.around, seen.operands[longer], PROJECTION)


def _around(seen: Sum, branch: Branch, found: Sequence[tuple[Sum, Branch]]) -> Branch | None:
    """The branch of the same start that a sum is only a part of, as where attention and MLP run side by side."""
    same = (other for _, other in found if other.skip == IDENTITY and other.start.edge == branch.start.edge)
    inside = (one for one in same if seen.result.edge.node in ancestry(one.end.edge, one.start.edge).operations)
    return next(inside, None) if branch.skip == PROJECTION else None


def _branch(seen: Sum, start: Point, end: Point, skip: str) -> Branch:
    # An activation is part of the block only if nothing else, such as the next skip, uses the sum itself.
    if seen.activated is None or seen.other_uses:
        return Branch(seen.module, start, end, skip, seen.result)
    return Branch(seen.module, start, end, skip, seen.activated, seen.result, seen.activation)


def _named(found: Sequence[tuple[Sum, Branch]], modules: Mapping[str, nn.Module]) -> list[Branch]:
    """After the module that adds; where it adds several times, after its largest child since the last time."""
    per_module = Counter(branch.name for _, branch in found)
    calls: Counter[str] = Counter()
    named = []
    for seen, branch in found:
        name = branch.name
        if per_module[name] > 1 and seen.since:
            name = max(seen.since, key=lambda child: sum(p.numel() for p in modules[child].parameters()))
        calls[name] += 1
        label = name or "(model)"
        named.append(replace(branch, name=label if calls[name] == 1 else f"{label} (call {calls[name]})"))
    return named
