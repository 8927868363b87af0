"""What the commands of `pdqat` do, one file each: from flags to calls and tables, no logic."""
