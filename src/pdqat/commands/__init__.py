"""The commands of `pdqat`, one file each: words and flags, no logic."""
