"""Products of reflections as they are defined, one after another in float64."""

import torch
from torch import Tensor


def product_of_reflections(vectors: Tensor, columns: int) -> Tensor:
    """First columns of H_1 ... H_m of one matrix of vectors, differentiable by autograd."""
    rows, count = vectors.shape
    product = torch.eye(rows, dtype=torch.float64)
    for i in range(count):
        v = torch.cat([torch.zeros(i, dtype=torch.float64), torch.ones(1, dtype=torch.float64), vectors[i + 1 :, i]])
        product = product - 2 * torch.outer(product @ v, v) / v.dot(v)
    return product[:, :columns]
