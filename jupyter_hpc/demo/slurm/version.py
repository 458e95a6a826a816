"""Which Slurm the work-alike says it is."""

VERSION = "22.05.8"
VERSION_LINE = f"slurm-wlm {VERSION}\n"
