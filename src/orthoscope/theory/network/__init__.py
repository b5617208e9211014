"""A whole random network, from its hyperparameters to signals and gradients at every layer.

`propagation` runs through the layers and gives their limits; each changes a `Signal` (`layers`), by expectations over
Gaussian pre-activations (`layer_moments`) or over a sphere after batch norm (`batch_normalized`, `sphere_layer`), with
the noise of finite width. `spectrum` turns signals into ranks and gaps.
"""
