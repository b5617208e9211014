"""Normalizations by name, of vectors and of maps."""

import pytest
import torch

from orthoscope.models.blocks import MAP_NORMS, VECTOR_NORMS, map_norm, vector_norm


@pytest.mark.parametrize("name", VECTOR_NORMS)
def test_vector_norms_agree_with_map_norms_on_maps_of_one_pixel(name: str) -> None:
    inputs = torch.randn(16, 6, generator=torch.Generator().manual_seed(0)) + 1
    maps = map_norm(name, 6)(inputs[:, :, None, None])
    torch.testing.assert_close(vector_norm(name, 6)(inputs), maps[:, :, 0, 0])


@pytest.mark.parametrize("name", VECTOR_NORMS)
def test_norms_have_parameters_only_when_asked(name: str) -> None:
    assert list(vector_norm(name, 6).parameters()) == []
    assert list(map_norm(name, 6).parameters()) == []
    affine = len(list(vector_norm(name, 6, affine=True).parameters()))
    assert affine == {"batch": 2, "layer": 2, "rms": 1}.get(name, 0)


def test_uncentered_batch_norm_gives_every_unit_mean_square_one_and_keeps_directions() -> None:
    inputs = torch.randn(8, 5, 3, 3, generator=torch.Generator().manual_seed(0)) + 2
    outputs = map_norm("batch-uncentered", 5)(inputs)
    torch.testing.assert_close(outputs.square().mean((0, 2, 3)), torch.ones(5))
    ratios = outputs / inputs
    torch.testing.assert_close(ratios, ratios[:1, :, :1, :1].expand_as(ratios))


def test_unknown_norms_list_the_known() -> None:
    for make, table in ((vector_norm, VECTOR_NORMS), (map_norm, MAP_NORMS)):
        with pytest.raises(ValueError, match=f"unknown normalization 'group': choose one of {', '.join(table)}"):
            make("group", 4)
