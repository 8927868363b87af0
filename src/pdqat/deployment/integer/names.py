"""Names that graphs and files share."""

INPUT, OUTPUT = "input", "output"
"""What a file calls its only input, and its only output or the one that the network is compared by."""
OWN_NAME = "own_name"
"""Where a node keeps the name that the model has for what it computes."""
SHAPE = "shape"
"""Where a node keeps the shape of what it makes of an example."""
