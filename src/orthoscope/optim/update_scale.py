r"""How long a step of Muon is: by what the learning rate is multiplied for a matrix of `out` rows and `in` columns.

An orthogonalised update $O$ has singular values 1, so $\|O\|_2 = 1$ and its entries have root mean square
$1/\sqrt{\max(\text{out}, \text{in})}$, whatever the gradient was. The scale $s$ decides what $\eta s O$ has in common
between matrices of different shapes.
"""

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches


def original(rows: int, columns: int) -> float:
    r"""$\sqrt{\max(1, \text{out}/\text{in})}$ (Jordan, 2024): the default of `torch.optim.Muon` too."""
    return math.sqrt(max(1.0, rows / columns))


def match_rms_adamw(rows: int, columns: int) -> float:
    r"""$0.2\sqrt{\max(\text{out}, \text{in})}$ (Liu et al., 2025): entries of root mean square $0.2\,\eta$.

    That is about what AdamW's updates have, so its learning rate and weight decay serve.
    """
    return 0.2 * math.sqrt(max(rows, columns))


def rms_to_rms(rows: int, columns: int) -> float:
    r"""$\sqrt{\text{out}/\text{in}}$: the norm of $\Delta W = \eta s O$ from RMS to RMS is $\eta$.

    $$ \|\Delta W\|_{\text{RMS}\to\text{RMS}} = \max_x \frac{\operatorname{rms}(\Delta W x)}{\operatorname{rms}(x)}
       = \sqrt{\text{in}/\text{out}}\;\|\Delta W\|_2 = \eta $$

    The norm is that of Ju, Orthogonality in Neural Networks: Weights and Gradients, slides, Uppsala University (2025),
    "Controlling Output Change": $\|A\|_{\text{RMS}\to\text{RMS}} = \sqrt{d_\text{in}/d_\text{out}}\,\|A\|_2$.
    So one step changes activations of size 1 by at most $\eta$, in layers of every shape.
    """
    return math.sqrt(rows / columns)


def none(rows: int, columns: int) -> float:
    r"""1: the update has spectral norm $\eta$."""
    return 1.0


SCALES: Mapping[str, Callable[[int, int], float]] = {
    "original": original,
    "match_rms_adamw": match_rms_adamw,
    "rms_to_rms": rms_to_rms,
    "none": none,
}


def check_scale(scale: str) -> None:
    """Refuse a name that is none of `SCALES`."""
    if scale not in SCALES:
        meant = get_close_matches(str(scale), SCALES, 1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {scale!r}{hint}")
