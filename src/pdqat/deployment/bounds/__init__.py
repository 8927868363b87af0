"""Bounds: what arithmetic in float32 can make of an input, by the integer reference and by the simulated model."""
