"""Following: the graph of operations that a network's model is, whatever its forward looks like."""
