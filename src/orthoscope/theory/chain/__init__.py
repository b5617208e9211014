"""The chain of daneshmand2021: linear layers and batch norm without centering, as a product of random matrices."""
