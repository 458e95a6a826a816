"""Cluster profiles: what a name such as `ulysses` stands for."""

from jupyter_hpc.clusters.loading import (
    Described,
    Entry,
    Suggestion,
    available,
    check_file,
    create_from_ssh_host,
    demo_folder,
    demo_pointer,
    describe,
    folders,
    load,
    suggest,
    written,
)
from jupyter_hpc.clusters.profile import Profile
from jupyter_hpc.clusters.sections import (
    Allocation,
    Budget,
    Environment,
    JupyterSettings,
    Login,
    SlurmSettings,
    Storage,
)

__all__ = [
    "Allocation",
    "Budget",
    "Described",
    "Entry",
    "Environment",
    "JupyterSettings",
    "Login",
    "Profile",
    "SlurmSettings",
    "Storage",
    "Suggestion",
    "available",
    "check_file",
    "create_from_ssh_host",
    "demo_folder",
    "demo_pointer",
    "describe",
    "folders",
    "load",
    "suggest",
    "written",
]
