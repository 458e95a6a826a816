"""From a laptop to a GPU node and from a notebook to a batch job, on Slurm clusters.

This module imports nothing heavy: the laptop side must load without a Jupyter
server, the node side without an SSH library.
"""

from __future__ import annotations

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    """Tell jupyter_server which app to load; called by its extension manager."""
    from jupyter_hpc.node.app import HpcExtension

    return [{"module": "jupyter_hpc", "app": HpcExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Tell JupyterLab's development tools where the built front end lies."""
    return [{"src": "labextension", "dest": "jupyter-hpc"}]
