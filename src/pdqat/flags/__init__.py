"""The flags of every command, one file each, without importing what the command does: `--help` needs no torch.

A parser names the function that does the work, as `command="pdqat.commands.show:run"`; the command line imports it
once the arguments are read.
"""
