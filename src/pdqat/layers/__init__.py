"""Precision-aware layers and the network they make up."""

from pdqat.layers.distances import Distance
from pdqat.layers.network import Network
from pdqat.layers.prepare import prepare
from pdqat.layers.state import Gradient

__all__ = ["Distance", "Gradient", "Network", "prepare"]
