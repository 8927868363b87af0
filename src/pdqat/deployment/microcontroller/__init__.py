"""An emulated Arm Cortex-M3: what a C folder takes of its memory, and how many instructions an image costs it."""
