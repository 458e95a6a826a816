"""Which site needs a key of a profile: the one whose ways nothing else expresses.

What is not here is there for people's own choices, or for jupyter-hpc itself.
"""

from __future__ import annotations

from jupyter_hpc.clusters.keys import Key

#: Built-in profile -> the keys that it is the reason for.
_NEEDS = {
    "cedar": ("status", "successor"),
    "cvl-uwa": ("slurm.gpu_flag", "slurm.prefix"),
    "fir": ("extends",),
    "leonardo": (
        *("login.credential", "login.lifetime", "login.renew_note"),
        *("allocation.account", "allocation.gres", "slurm.account_rule"),
        *("presets.use", "presets.qos", "presets.max_time", "presets.max_nodes"),
        *("storage.purge_days", "storage.quota_command", "budget.command"),
        *("transfer.host", "transfer.note"),
    ),
    "m3": (
        *("support", "allocation.partition", "allocation.qos", "allocation.tasks_per_node"),
        *("allocation.gpu_type", "partitions.qos", "partitions.max_gpus", "partitions.gpu_types"),
        *("environment.modules", "jupyter.transport"),
    ),
    "mlp": (
        *("login.jump", "login.renew", "environment.unset", "partitions.max_time"),
        *("storage.kind", "storage.shared", "storage.note"),
    ),
    "narval": (
        *("title", "docs", "sources", "allocation.time", "allocation.nodes", "allocation.memory"),
        *("limits.min_time", "limits.gpu_types", "limits.max_jobs", "slurm.poll_seconds"),
        *("environment.job_setup", "environment.shell", "environment.style"),
        *("environment.wheels", "jupyter.launch", "storage.files", "storage.backup"),
        *("storage.ram", "storage.quota_format"),
    ),
    "rorqual": ("allocation.local_disk", "storage.size_option"),
    "snellius": (
        *("login.max_attempts", "login.refused", "allocation.constraint"),
        *("allocation.cpus", "partitions.note", "budget.unit", "budget.rates"),
        *("budget.remaining", "budget.warn_below"),
    ),
    "tamia": ("allocation.gpus", "limits.whole_nodes", "slurm.account_prefix"),
    "trillium": (
        *("presets.max_gpus", "limits.max_time", "limits.gpu_counts", "slurm.partition_rule"),
        *("batch.run_dir", "jupyter.root_dir", "storage.read_only"),
    ),
    "ulysses": (
        *("login.host", "login.network", "limits.max_nodes", "limits.max_gpus"),
        *("environment.setup", "jupyter.port", "storage.path", "storage.size"),
    ),
    "vulcan": ("environment.internet",),
}
_SITE = {key: site for site, keys in _NEEDS.items() for key in keys}
#: Sections whose keys are mostly those of another one.
_LIKE = {"presets": "allocation", "partitions": "limits"}


def needed_by(key: Key) -> str:
    """The built-in profile of the site that needs it; "" for none."""
    for section in (key.section, _LIKE.get(key.section, "")):
        site = _SITE.get(f"{section}.{key.name}" if section else key.name)
        if site is not None and (section or not key.section):
            return site
    return ""
