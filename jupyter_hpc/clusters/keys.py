"""The keys of a cluster profile: one table, which everything about profiles follows.

The table is the only place where a key is named with its type, choices, default and
meaning; loading, error messages, `sections.py`, the schema for editors and the
documentation page all follow it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Key:
    """One key of a profile.

    `section` is the TOML table ("" for the top level; the NAMED_SECTIONS hold one table
    per name). `kind` names a check in values.py. A default of None means "not given": the
    cluster or jupyter-hpc decides.
    """

    section: str
    name: str
    kind: str
    doc: str
    default: Any = None
    choices: tuple[str, ...] = ()


_ALLOCATION = (
    Key("allocation", "partition", "word", "Partition to ask for."),
    Key("allocation", "account", "word", "Account that is charged."),
    Key("allocation", "cpu_account", "word", "Account of jobs without GPUs, where it is another."),
    Key("allocation", "qos", "word", "Quality of service."),
    Key("allocation", "constraint", "word", "Node features that are needed, as Slurm writes them."),
    Key("allocation", "time", "time", "Time limit, for example `12:00:00` or `1-00:00:00`."),
    Key("allocation", "nodes", "count", "Number of nodes."),
    Key(
        "allocation",
        "tasks_per_node",
        "count",
        "Tasks on each node of a batch job, which share its CPUs; a session is one task.",
    ),
    Key("allocation", "cpus", "cpus", "CPUs on each node; `cluster` leaves them to it."),
    Key(
        "allocation",
        "memory",
        "memory",
        "Memory on each node, for example `32G`; `cluster` leaves it to it.",
    ),
    Key(
        "allocation", "gpus", "amount", "GPUs, counted as `gpu_flag` counts them; 0 asks for none."
    ),
    Key("allocation", "gpu_type", "word", "GPU model as the cluster spells it; case matters."),
    Key("allocation", "gres", "words", "Further generic resources, as `name:count`.", ()),
    Key(
        "allocation",
        "local_disk",
        "size",
        "Space on the node's own disk, asked for by its `size_option` (see storage).",
    ),
    Key(
        "allocation",
        "extra",
        "options",
        'Further options, each as one word, for example `["--exclusive"]`.',
        (),
    ),
)


#: What the site allows, for the whole cluster or for one partition of it.
_LIMITS = (
    Key("limits", "max_time", "time", "Longest time of a job."),
    Key("limits", "max_nodes", "count", "Most nodes of a job."),
    Key("limits", "max_gpus", "count", "Most GPUs of a job, over all its nodes."),
    Key("limits", "gpu_types", "words", "GPU models that there are; case matters.", ()),
    Key(
        "limits",
        "gpu_counts",
        "counts",
        'Numbers of GPUs that a job may have: `["1", "4n"]` is 1, 4, 8, 12, …; `"h200:8n"` is for '
        "one type. A multiple is counted on each node where `gpu_flag` counts so.",
        (),
    ),
    Key("limits", "whole_nodes", "flag", "Whether jobs with GPUs get whole nodes only.", False),
)


KEYS: tuple[Key, ...] = (
    Key("", "title", "text", "Name of the cluster as people say it.", ""),
    Key("", "extends", "profile", "Profile whose values are taken where this one has none."),
    Key(
        "",
        "status",
        "choice",
        "Whether the cluster is in service.",
        "active",
        ("active", "retired", "unknown"),
    ),
    Key("", "successor", "profile", "Profile of the cluster that replaces a retired one."),
    Key("", "docs", "text", "Address of the site's documentation.", ""),
    Key("", "support", "text", "Where to ask for help: an e-mail address or a page.", ""),
    Key("", "sources", "lines", "Where the values come from, with dates.", ()),
    Key("login", "host", "hosts", "Login host, or a list that is tried in order. Required.", ()),
    Key("login", "user", "word", "User name there; else as `ssh` would choose it."),
    Key("login", "port", "port", "SSH port; else as `ssh` would choose it."),
    Key("login", "jump", "jumps", "Jump hosts on the way, as `[user@]host[:port]`.", ()),
    Key(
        "login",
        "ssh_config",
        "path",
        "SSH configuration to use instead of `~/.ssh/config`; `~` and `${VARIABLES}` are expanded.",
    ),
    Key("login", "network", "text", "Sentence shown when no login host can be reached.", ""),
    Key(
        "login",
        "credential",
        "choices",
        "What the site takes at login; what is not in the list is not tried.",
        (),
        ("key", "password", "code", "duo", "certificate", "kerberos"),
    ),
    Key("login", "lifetime", "duration", "How long a certificate or ticket is valid."),
    Key(
        "login",
        "renew",
        "argv",
        "Command on this computer that renews it; `{user}` in it is your name there.",
        (),
    ),
    Key("login", "renew_note", "text", "Sentence about that: what it needs, where it leads.", ""),
    Key(
        "login",
        "max_attempts",
        "count",
        "Most keys and passwords that one login tries, where a site locks people out.",
    ),
    Key("login", "refused", "text", "Sentence shown when the login is refused.", ""),
    *_ALLOCATION,
    *(replace(key, section="presets") for key in _ALLOCATION),
    Key(
        "presets",
        "use",
        "choice",
        "What the preset is for.",
        "any",
        ("any", "connect", "submit"),
    ),
    Key("presets", "max_time", "time", "Longest time that may be asked for with it."),
    Key("presets", "max_nodes", "count", "Most nodes that may be asked for with it."),
    Key("presets", "max_gpus", "count", "Most GPUs that may be asked for with it."),
    Key("partitions", "qos", "word", "QOS that goes with the partition."),
    Key("partitions", "account", "word", "Account that goes with the partition."),
    *(replace(key, section="partitions") for key in _LIMITS),
    Key("partitions", "note", "text", "One sentence for the user.", ""),
    Key("limits", "min_time", "time", "Shortest time of a job."),
    *_LIMITS,
    Key("limits", "max_jobs", "count", "Most jobs of one user, runs of a sweep included."),
    Key(
        "slurm",
        "gpu_flag",
        "choice",
        "Option that asks for GPUs on this cluster; `none`: they are never asked for.",
        "gpus",
        ("gpus", "gpus-per-node", "gres", "none"),
    ),
    Key(
        "slurm",
        "partition_rule",
        "choice",
        "Who names the partition; `ask`: the first connect asks which, `routed`: the site "
        "chooses by what is asked for, `never`: naming one is an error.",
        "optional",
        ("optional", "ask", "routed", "never"),
    ),
    Key(
        "slurm",
        "account_rule",
        "choice",
        "Whether a job names its account; `ask`: the first connect asks where there are several.",
        "optional",
        ("optional", "ask", "required"),
    ),
    Key(
        "slurm",
        "account_prefix",
        "word",
        "What the accounts begin with that work here; others are not offered beside them.",
    ),
    Key("slurm", "poll_seconds", "seconds", "Seconds between two looks at the queue.", 60),
    Key(
        "slurm",
        "prefix",
        "argv",
        "Words before every Slurm command inside a session, where it does not find them.",
        (),
    ),
    Key(
        "environment", "setup", "lines", "Shell lines that run before Jupyter and before jobs.", ()
    ),
    Key("environment", "jupyter_setup", "lines", "Further lines before Jupyter alone.", ()),
    Key("environment", "job_setup", "lines", "Further lines before batch jobs alone.", ()),
    Key("environment", "modules", "words", "Modules that are loaded before those lines.", ()),
    Key(
        "environment",
        "shell",
        "choice",
        "`login`: the user's own login files are read first.",
        "plain",
        ("plain", "login"),
    ),
    Key(
        "environment",
        "style",
        "choice",
        "How environments are made here; with no lines at all, the first connect asks for one.",
        "any",
        ("any", "conda", "modules", "wheels", "venv", "container"),
    ),
    Key("environment", "wheels", "text", "Folder of wheels for environments built in jobs.", ""),
    Key("environment", "unset", "variables", "Variables removed before Jupyter starts.", ()),
    Key(
        "environment",
        "internet",
        "choice",
        "Whether compute nodes reach the internet; `submit` speaks of downloads accordingly.",
        "unknown",
        ("yes", "no", "proxy", "unknown"),
    ),
    Key("jupyter", "port", "port", "Port on the laptop; else one is chosen once and kept."),
    Key(
        "jupyter",
        "root_dir",
        "text",
        "Folder that JupyterLab shows; may begin with `~` or a variable such as `$SCRATCH`. Else, "
        "or where that is not set, the home folder.",
    ),
    Key("jupyter", "command", "argv", "Command that starts JupyterLab.", ("jupyter", "lab")),
    Key(
        "jupyter",
        "launch",
        "choice",
        "Command that holds the allocation.",
        "salloc",
        ("salloc", "sbatch"),
    ),
    Key(
        "jupyter",
        "transport",
        "choice",
        "Way to the compute node; `auto` takes the best that works.",
        "auto",
        ("auto", "ssh", "login-ssh", "srun", "direct"),
    ),
    Key(
        "jupyter",
        "idle_release",
        "duration",
        "Give the job back after this long without browser and busy kernel, for example `2h`.",
    ),
    Key(
        "jupyter",
        "carry_each",
        "memory",
        "Largest variable that `connect --renew=variables` carries over.",
        "256M",
    ),
    Key(
        "jupyter",
        "carry_total",
        "memory",
        "Most that it carries over of all kernels together; it is written to the home folder.",
        "1G",
    ),
    Key(
        "batch",
        "run_dir",
        "text",
        "Folder on the cluster for runs that are sent from a laptop, or whose notebook is where "
        "nodes can only read; `$SCRATCH` and the like work.",
        "",
    ),
    Key("batch", "small_kilobytes", "count", "Files up to this size are copied.", 1000),
    Key("batch", "data_files", "count", "A folder with more files is linked as a whole.", 100),
    Key("batch", "data_megabytes", "count", "The same for a folder with more in it.", 20),
    Key(
        "batch",
        "written_megabytes",
        "count",
        "So much of the files that a run will write is copied, however large each is.",
        2000,
    ),
    Key("storage", "path", "text", "Folder; variables such as `$USER` are allowed. Required."),
    Key(
        "storage",
        "kind",
        "choice",
        "What the area is for.",
        "work",
        ("home", "work", "scratch", "node"),
    ),
    Key("storage", "shared", "flag", "Whether all nodes see the same files.", True),
    Key("storage", "size", "size", "How much may be stored, as the site says it."),
    Key("storage", "files", "files", "How many files may be stored, as the site says it."),
    Key("storage", "purge_days", "count", "Days after which untouched files are deleted."),
    Key("storage", "backup", "flag", "Whether the site keeps a backup.", False),
    Key("storage", "read_only", "flag", "Whether compute nodes can only read it.", False),
    Key("storage", "ram", "flag", "Whether it is memory, and counts as the job's.", False),
    Key(
        "storage",
        "size_option",
        "option",
        "Option that asks for space there: `--tmp`, or `--gres=tmpfs`.",
        "",
    ),
    Key("storage", "quota_command", "argv", "Command that prints the quota.", ()),
    Key(
        "storage",
        "quota_format",
        "choice",
        "How its output is read; `text` shows it as it is.",
        "text",
        ("text", "quota", "lfs", "diskusage_report"),
    ),
    Key("storage", "note", "text", "One sentence for the user.", ""),
    Key("budget", "command", "argv", "Command that prints the remaining budget.", ()),
    Key("budget", "unit", "text", "Unit of the budget, for example `SBU`.", ""),
    Key("budget", "rates", "rates", "Price of one hour, by what is used."),
    Key("budget", "remaining", "pattern", "Finds what is left in what the command prints."),
    Key("budget", "warn_below", "quantity", "Warn when less than this is left."),
    Key("transfer", "host", "hosts", "Host for large transfers, instead of the login host."),
    Key("transfer", "note", "text", "One sentence about it.", ""),
)

SECTIONS = (
    "login",
    "allocation",
    "presets",
    "partitions",
    "limits",
    "slurm",
    "environment",
    "jupyter",
    "batch",
    "storage",
    "budget",
    "transfer",
    "confidence",
)

#: Sections that hold one table per name instead of keys.
NAMED_SECTIONS = ("presets", "partitions", "storage")

#: The section [confidence] has the keys of a profile as its keys, such as
#: "allocation.partition", and these words as values.
CONFIDENCE = ("documented", "reported", "unsure")
