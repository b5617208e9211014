"""Weights at the start: one scheme a file, and one walk over a model that applies it."""

from orthoscope.init.gaussian import gaussian_
from orthoscope.init.he import he_
from orthoscope.init.iterative import iterative_
from orthoscope.init.lsuv import lsuv_
from orthoscope.init.named import delta_orthogonal_, haar_, svd_orthogonal_
from orthoscope.init.normal import normal_
from orthoscope.init.orthogonal import orthogonal_
from orthoscope.init.schemes import SCHEMES, Scheme, initialise_
from orthoscope.init.torch_default import torch_default_
from orthoscope.init.variance import bias_variance, weight_sample, weight_variance
from orthoscope.init.xavier import xavier_

__all__ = [
    "SCHEMES",
    "Scheme",
    "bias_variance",
    "delta_orthogonal_",
    "gaussian_",
    "haar_",
    "he_",
    "initialise_",
    "iterative_",
    "lsuv_",
    "normal_",
    "orthogonal_",
    "svd_orthogonal_",
    "torch_default_",
    "weight_sample",
    "weight_variance",
    "xavier_",
]
