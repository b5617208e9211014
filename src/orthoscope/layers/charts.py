"""The maps from free coordinates to orthonormal frames, by name, with a common interface.

A *frame* is a matrix `(*batch, rows, columns)`, rows >= columns, with orthonormal columns. A chart writes it as
coordinates, which are trained, and an *anchor*, which is constant: ±1 for every column, or a whole frame.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from orthoscope.linalg import givens_coordinates, givens_count, givens_frame
from orthoscope.linalg.cayley import cayley_coordinates, cayley_frame
from orthoscope.linalg.exponential import exponential_frame
from orthoscope.linalg.householder import householder_coordinates, householder_frame


@dataclass(frozen=True)
class PartialFamily:
    """The products of fewer factors than it takes to reach every frame; their number is the `size` of the family."""

    beginning: Callable[[Tensor, int], tuple[Tensor, Tensor]]  # the first `size` factors of a frame, and its anchor
    description: Callable[[int, int], str]  # (rows, size), as the argument that asks for it


@dataclass(frozen=True)
class Chart:
    """One map from coordinates to frames; `size` is the number of factors of a partial family, None for all frames.

    Attributes:
        frame: The map: (coordinates, anchor, rows, size) -> frame.
        coordinates: Its inverse: (frame, size) -> (coordinates, anchor).
        coordinates_shape: (rows, columns, size) -> shape of the coordinates, without the batch.
        determinant: (anchor, size) -> determinant of a square real frame.
        partial: The family of frames with fewer factors; None if there is none.
        anchored_by_frame: Whether the anchor is a whole frame.
        allows_complex: Whether weights may be complex.
    """

    frame: Callable[[Tensor, Tensor, int, int | None], Tensor]
    coordinates: Callable[[Tensor, int | None], tuple[Tensor, Tensor]]
    coordinates_shape: Callable[[int, int, int | None], tuple[int, ...]]
    determinant: Callable[[Tensor, int | None], Tensor]
    partial: PartialFamily | None = None
    anchored_by_frame: bool = False
    allows_complex: bool = False


def _householder_frame(vectors: Tensor, signs: Tensor, rows: int, size: int | None) -> Tensor:
    return householder_frame(vectors, signs.shape[-1]) * signs.unsqueeze(-2)


def _first_reflections(frame: Tensor, size: int) -> tuple[Tensor, Tensor]:
    vectors, signs = householder_coordinates(frame)
    return vectors[..., :size], signs


def _reflections_determinant(signs: Tensor, size: int | None) -> Tensor:
    # Each of the reflections has determinant -1.
    return signs.prod(-1) * (-1) ** (signs.shape[-1] if size is None else size)


def _givens_frame(angles: Tensor, signs: Tensor, rows: int, size: int | None) -> Tensor:
    return givens_frame(angles, rows, signs.shape[-1], size) * signs.unsqueeze(-2)


def _first_rotations(frame: Tensor, size: int) -> tuple[Tensor, Tensor]:
    angles, signs = givens_coordinates(frame)
    return angles[..., : givens_count(frame.shape[-2], size)], signs


# A new map is one entry here; it then passes every law in tests/layers.
CHARTS: dict[str, Chart] = {
    "householder": Chart(
        frame=_householder_frame,
        coordinates=householder_coordinates,
        coordinates_shape=lambda rows, columns, size: (rows, columns if size is None else size),
        determinant=_reflections_determinant,
        partial=PartialFamily(_first_reflections, lambda rows, size: f"num_reflections={size}"),
    ),
    "cayley": Chart(
        frame=lambda generator, signs, rows, size: cayley_frame(generator, signs),
        coordinates=lambda frame, size: cayley_coordinates(frame),
        coordinates_shape=lambda rows, columns, size: (rows, columns),
        determinant=lambda signs, size: signs.prod(-1),
        allows_complex=True,
    ),
    "exponential": Chart(
        frame=lambda coordinates, anchor, rows, size: exponential_frame(coordinates, anchor),
        coordinates=lambda frame, size: (torch.zeros_like(frame), frame),
        coordinates_shape=lambda rows, columns, size: (rows, columns),
        determinant=lambda anchor, size: torch.linalg.det(anchor).sign(),
        anchored_by_frame=True,
        allows_complex=True,
    ),
    "givens": Chart(
        frame=_givens_frame,
        coordinates=givens_coordinates,
        coordinates_shape=lambda rows, columns, size: (givens_count(rows, columns if size is None else size),),
        determinant=lambda signs, size: signs.prod(-1),
        partial=PartialFamily(_first_rotations, lambda rows, size: f"num_rotations={givens_count(rows, size)}"),
    ),
}


def chosen_map(rows: int, columns: int, is_complex: bool) -> str:
    """The map that "auto" stands for: Householder for real frames at least twice as tall as wide, else Cayley.

    Of the maps with a small anchor these two are the fastest. A square frame costs Cayley one inverse and two products,
    fewer than panels of reflections, especially if it is small; for tall ones the two cost about the same, and
    reflections need no inverse, which can be ill-conditioned. `make bench-weights` measures both.
    """
    return "householder" if rows >= 2 * columns and not is_complex else "cayley"
