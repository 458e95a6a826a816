"""Cluster profiles: what a name such as `ulysses` stands for."""

from jupyter_hpc.clusters.loading import (
    Entry,
    Suggestion,
    available,
    create_from_ssh_host,
    demo_folder,
    demo_pointer,
    folders,
    load,
    suggest,
    written,
)
from jupyter_hpc.clusters.profile import (
    Allocation,
    Budget,
    Environment,
    JupyterSettings,
    Login,
    Profile,
    SlurmSettings,
    Storage,
)

__all__ = [
    "Allocation",
    "Budget",
    "Entry",
    "Environment",
    "JupyterSettings",
    "Login",
    "Profile",
    "SlurmSettings",
    "Storage",
    "Suggestion",
    "available",
    "create_from_ssh_host",
    "demo_folder",
    "demo_pointer",
    "folders",
    "load",
    "suggest",
    "written",
]
