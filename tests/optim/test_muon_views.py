"""The matrices of a parameter compute the outputs of its layer."""

import pytest
import torch
from torch import nn

from optim.optimizers import gaussian
from orthoscope.optim import MatrixView

CASES = {
    "matrix": ((7, 4), MatrixView(), (1, 7, 4)),
    "convolution": ((5, 3, 2, 2), MatrixView(), (1, 5, 12)),
    "grouped": ((6, 2, 3), MatrixView(parts=2), (2, 3, 6)),
    "transposed": ((6, 5, 3), MatrixView(groups=2, transposed=True), (2, 5, 9)),
    "fused": ((12, 4), MatrixView(parts=3), (3, 4, 4)),
    "heads": ((24, 4), MatrixView(parts=12), (12, 2, 4)),
    "stored (in, out)": ((4, 15), MatrixView(parts=3, transposed=True), (3, 5, 4)),
    "experts": ((2, 3, 5, 4), MatrixView(batched=True), (6, 5, 4)),
    "gated experts": ((2, 4, 10), MatrixView(parts=2, transposed=True, batched=True), (4, 5, 4)),
    "one expert": ((5, 4), MatrixView(batched=True), (1, 5, 4)),
}
cases = pytest.mark.parametrize("case", CASES)


@cases
def test_matrices_have_the_stated_shape_and_are_assembled_to_the_parameter(case: str) -> None:
    shape, view, expected = CASES[case]
    tensor = gaussian(*shape)
    matrices = view.matrices(tensor)
    assert tuple(matrices.shape) == view.shape(shape) == expected
    assert torch.equal(view.assemble(matrices, shape), tensor)
    # A product on the side of the inputs belongs to each matrix alone, so it must arrive where its matrix is.
    doubled = view.assemble(matrices * torch.arange(1, len(matrices) + 1)[:, None, None], shape)
    assert torch.equal(view.matrices(doubled)[-1], matrices[-1] * len(matrices))


@cases
def test_views_are_plain_data(case: str) -> None:
    view = CASES[case][1]
    assert MatrixView(*view.plain) == view
    assert hash(MatrixView(*view.plain)) == hash(view)
    assert all(type(value) in (int, bool) for value in view.plain)


def test_matrices_of_a_grouped_convolution_compute_its_outputs() -> None:
    layer = nn.Conv2d(6, 4, 3, groups=2, bias=False, dtype=torch.float64)
    patch = gaussian(1, 6, 3, 3)
    matrices = MatrixView(parts=2).matrices(layer.weight)
    inputs = patch.reshape(2, -1)  # the channels of each group, flattened
    expected = torch.stack([matrix @ part for matrix, part in zip(matrices, inputs, strict=True)])
    torch.testing.assert_close(layer(patch).flatten(), expected.flatten())


def test_matrices_of_a_transposed_convolution_compute_its_outputs() -> None:
    """At the center of the output, every position of the kernel is applied to one input."""
    layer = nn.ConvTranspose2d(6, 4, 3, groups=2, padding=1, bias=False, dtype=torch.float64)
    image = gaussian(1, 6, 3, 3)
    matrices = MatrixView(groups=2, transposed=True).matrices(layer.weight)
    inputs = image.flip(-2, -1).reshape(2, -1)
    expected = torch.stack([matrix @ part for matrix, part in zip(matrices, inputs, strict=True)])
    torch.testing.assert_close(layer(image)[0, :, 1, 1], expected.flatten())


def test_matrices_of_fused_attention_are_query_key_and_value() -> None:
    attention = nn.MultiheadAttention(8, 2, bias=False, dtype=torch.float64)
    x = gaussian(5, 8)
    projected = nn.functional.linear(x, attention.in_proj_weight).chunk(3, dim=-1)
    for matrix, expected in zip(MatrixView(parts=3).matrices(attention.in_proj_weight), projected, strict=True):
        torch.testing.assert_close(x @ matrix.T, expected)


def test_views_that_do_not_fit_a_parameter_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(10, 4\) cannot be cut into equal blocks by MatrixView\(parts=3"):
        MatrixView(parts=3).shape((10, 4))
    with pytest.raises(ValueError, match=r"\(5, 4, 3\) cannot be cut"):
        MatrixView(groups=2, transposed=True).shape((5, 4, 3))
    with pytest.raises(ValueError, match=r"\(4,\) holds no matrix: leave it to AdamW"):
        MatrixView().shape((4,))
    with pytest.raises(ValueError, match=r"at least 1, got 0 and 1"):
        MatrixView(parts=0)
    with pytest.raises(ValueError, match=r"write parts=groups"):
        MatrixView(groups=2)
