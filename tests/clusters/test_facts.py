"""The built-in profiles against what is known of the sites, value by value.

The tables are written from the sites' documentation and the guides of their users, not from the
profiles: who changes a profile has to know better than they do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc import clusters
from jupyter_hpc.clusters.keys import KEYS, NAMED_SECTIONS, Key
from jupyter_hpc.clusters.loading import describe, parse_toml
from jupyter_hpc.clusters.needs import needed_by
from tests.clusters.test_builtin import SITES

BUILTIN = Path(clusters.__file__).parent / "builtin"
#: Sites, and clusters that were: not the demo.
NAMES = {path.stem for path in BUILTIN.glob("*.toml")} - {"demo"}

#: The Alliance's clusters have in common what stands at Narval's.
_ALLIANCE: dict[str, Any] = {
    "login.credential": ("key", "password", "duo"),
    "slurm.gpu_flag": "gpus-per-node",
    "slurm.partition_rule": "routed",
    "slurm.account_rule": "ask",
    "limits.max_time": "7-00:00:00",
    "limits.min_time": "00:05:00",
    "limits.max_jobs": 1000,
    "allocation.time": "03:00:00",  # interactive jobs start soon up to this
    "environment.style": "wheels",
    "environment.internet": "no",
    "environment.unset": ("XDG_RUNTIME_DIR",),
    "storage.home.size": "50G",
    "storage.home.files": 500000,
    "storage.scratch.size": "20T",
    "storage.scratch.files": 1000000,
    "storage.scratch.purge_days": 60,
    "storage.scratch.quota_command": ("diskusage_report",),
    "storage.project.size": "1T",
    "storage.project.files": 500000,
    "storage.local.path": "$SLURM_TMPDIR",
    "storage.local.shared": False,
    "storage.tmp.ram": True,
    "budget.unit": "RGU-hours",
    "budget.rates": {"gpu_types": {"a100": 4.0, "h100": 12.15}},
}

FACTS: dict[str, dict[str, Any]] = {
    "ulysses": {
        "login.host": ("frontend1.hpc.sissa.it", "frontend2.hpc.sissa.it"),
        "login.credential": ("key", "password"),
        "slurm.gpu_flag": "gpus",
        "slurm.partition_rule": "ask",
        "allocation.time": "12:00:00",
        "limits.max_nodes": 4,
        "limits.max_gpus": 8,
        "environment.style": "conda",
        "environment.internet": "no",
        "storage.home.path": "/home/$USER",
        "storage.home.size": "200G",
        "storage.home.backup": True,
        "storage.home.quota_command": ("quota", "-w"),
        "storage.scratch.path": "/scratch/$USER",
        "storage.scratch.size": "5T",
        "storage.scratch.backup": None,
        "storage.scratch.purge_days": None,
    },
    "leonardo": {
        "login.host": (
            "login.leonardo.cineca.it",
            *(f"login{number}-ext.leonardo.cineca.it" for number in ("01", "02", "05", "07")),
        ),
        "login.credential": ("certificate",),
        "login.lifetime": "12h",
        "allocation.partition": "boost_usr_prod",
        "slurm.gpu_flag": "gres",
        "slurm.account_rule": "required",
        "presets.trial.qos": "boost_qos_dbg",
        "presets.trial.max_time": "00:30:00",
        "presets.long.qos": "boost_qos_lprod",
        "presets.long.max_time": "4-00:00:00",
        "partitions.lrd_all_serial.max_time": "04:00:00",
        "environment.style": "modules",
        "environment.internet": "no",
        "storage.home.size": "50G",
        "storage.home.backup": True,
        "storage.work.size": "1T",
        "storage.work.quota_command": ("cindata",),
        "storage.fast.size": "1T",
        "storage.scratch.size": "20T",
        "storage.scratch.purge_days": 40,
        "storage.local.path": "$TMPDIR",
        "storage.local.size_option": "--gres=tmpfs",
        "budget.command": ("saldo", "-b"),
        "transfer.host": ("data.leonardo.cineca.it",),
    },
    "m3": {
        "login.host": ("m3.massive.org.au",),
        "support": "help@massive.org.au",
        "allocation.memory": "55G",
        "allocation.cpus": 6,
        "allocation.gpu_type": "A40",
        "slurm.gpu_flag": "gres",
        "presets.desktop.partition": "desktop",
        "presets.desktop.gpu_type": "P4",
        "partitions.desktop.qos": "desktopq",
        "partitions.m3h.qos": "m3h",
        "partitions.m3h.gpu_types": ("H100",),
        "partitions.gpu.max_gpus": 4,
        "limits.max_time": "7-00:00:00",
        "jupyter.transport": "srun",
        "environment.internet": "unknown",
        "storage.home.size": "10G",
        "storage.project.size": "500G",
        "storage.project.backup": True,
        "storage.scratch.path": "/scratch2",
        "storage.scratch.size": "3T",
        "storage.home.quota_command": ("user_info",),
        "transfer.host": ("m3-dtn.massive.org.au",),
    },
    "cvl-uwa": {
        "login.host": None,
        "status": "unknown",
        "slurm.gpu_flag": "none",
        "allocation.partition": "desktop",
        "allocation.qos": None,
        "allocation.memory": "40G",
        "allocation.cpus": 6,
    },
    "snellius": {
        "login.host": ("snellius.surf.nl",),
        "login.credential": ("key", "password", "code"),
        "login.max_attempts": 2,
        "allocation.partition": "gpu_a100",
        "allocation.cpus": "cluster",
        "allocation.memory": "cluster",
        "slurm.gpu_flag": "gpus-per-node",
        "presets.trial.max_time": "01:00:00",
        "presets.mig.partition": "gpu_mig",
        "partitions.gpu_mig.max_time": "5-00:00:00",
        "limits.max_time": "5-00:00:00",
        "environment.style": "conda",
        "environment.internet": "unknown",
        "storage.home.size": "200G",
        "storage.home.files": 1000000,
        "storage.home.backup": True,
        "storage.home.quota_command": ("myquota",),
        "storage.scratch.path": "/scratch-shared/$USER",
        "storage.scratch.size": "8T",
        "storage.scratch.purge_days": 14,
        "storage.local.path": "$TMPDIR",
        "storage.local.purge_days": 6,
        "budget.command": ("accinfo",),
        "budget.unit": "SBU",
        "budget.rates": {
            "partitions": {
                "gpu_a100": {"gpu_hour": 128.0},
                "gpu_h100": {"gpu_hour": 192.0},
                "gpu_mig": {"gpu_hour": 64.0},
            }
        },
    },
    "narval": {
        **_ALLIANCE,
        "login.host": ("narval.alliancecan.ca",),
        "allocation.gpu_type": "a100",
        "allocation.memory": "32000M",
        "limits.gpu_types": ("a100", "a100_1g.5gb", "a100_2g.10gb", "a100_3g.20gb"),
        "storage.scratch.path": "/scratch/$USER",
    },
    "rorqual": {
        **_ALLIANCE,
        "login.host": ("rorqual.alliancecan.ca",),
        "allocation.gpu_type": "h100",
        "storage.scratch.path": "$HOME/links/scratch",
        "storage.local.size_option": "--tmp",
    },
    "fir": {
        **_ALLIANCE,
        "login.host": ("fir.alliancecan.ca",),
        "allocation.gpu_type": "h100",
        "environment.internet": "yes",
        "storage.scratch.path": "$HOME/scratch",
    },
    "nibi": {
        **_ALLIANCE,
        "login.host": ("nibi.alliancecan.ca",),
        "limits.gpu_types": ("h100", "mi300a"),
        "environment.internet": "yes",
        "storage.scratch.size": "1T",
    },
    "trillium": {
        **_ALLIANCE,
        "login.host": ("trillium-gpu.alliancecan.ca",),
        "login.credential": ("key", "duo"),
        "slurm.partition_rule": "never",
        "limits.max_time": "1-00:00:00",
        "limits.gpu_types": ("h100",),
        "limits.gpu_counts": ("1", "4n"),
        "presets.trial.max_time": "02:00:00",
        "presets.trial.max_gpus": 1,
        "batch.run_dir": "$SCRATCH/jupyter-hpc",
        "jupyter.root_dir": "$SCRATCH",
        "storage.home.read_only": True,
        "storage.project.read_only": True,
    },
    "tamia": {
        **_ALLIANCE,
        "login.host": ("tamia.alliancecan.ca",),
        "allocation.gpus": 4,
        "presets.h200.gpus": 8,
        "presets.h200.gpu_type": "h200",
        "limits.max_time": "1-00:00:00",
        "limits.gpu_types": ("h100", "h200"),
        "limits.gpu_counts": ("h100:4n", "h200:8n"),
        "limits.whole_nodes": True,
        "slurm.account_prefix": "aip-",
    },
    "vulcan": {
        **_ALLIANCE,
        "login.host": ("vulcan.alliancecan.ca",),
        "allocation.gpu_type": "l40s",
        "slurm.account_prefix": "aip-",
        "environment.internet": "proxy",
    },
    "killarney": {
        **_ALLIANCE,
        "login.host": ("killarney.alliancecan.ca",),
        "limits.gpu_types": ("l40s", "h100"),
        "environment.internet": "yes",
    },
}
FACTS["mlp"] = {
    "login.host": ("mlp.inf.ed.ac.uk",),
    "login.credential": ("kerberos", "password", "key"),
    "login.renew": ("kinit", "{user}@INF.ED.AC.UK"),
    "allocation.partition": "PGR-Standard",
    "slurm.gpu_flag": "gres",
    "slurm.account_rule": None,
    "partitions.PGR-Standard.max_time": "7-00:00:00",
    "partitions.Teach-Interactive.max_time": "02:00:00",
    "partitions.Teach-Standard.max_time": "08:00:00",
    "partitions.Teach-Short.max_time": "04:00:00",
    "partitions.Teach-LongJobs.max_time": "3-08:00:00",
    "partitions.General_Usage.max_time": "3-08:00:00",
    "environment.style": "conda",
    "environment.unset": ("XDG_RUNTIME_DIR",),
    "storage.home.backup": None,
    "storage.local.path": "/disk/scratch/$USER",
    "storage.local.shared": False,
}
FACTS["ilcc"] = {
    **FACTS["mlp"],
    "login.host": ("ilcc-cluster.inf.ed.ac.uk", "mlp.inf.ed.ac.uk"),
    "allocation.partition": "ILCC-Standard",
}

#: What nobody has documented: it is asked or probed, and refuses nothing.
UNSURE = {
    "ulysses": ("storage.home.quota_command",),
    "leonardo": (
        *("slurm.account_rule", "login.renew", "storage.work.quota_command"),
        *("presets.trial.qos", "presets.trial.max_time", "presets.trial.max_nodes"),
        *("presets.long.qos", "presets.long.max_time"),
        *("partitions.lrd_all_serial.max_time", "storage.local.size_option"),
    ),
    "m3": (
        *("partitions.gpu.max_gpus", "partitions.m3h.qos", "partitions.m3h.gpu_types"),
        *("limits.max_time", "transfer.host"),
    ),
    "cvl-uwa": ("allocation.partition", "slurm.account_rule"),
    "snellius": ("storage.home.quota_command", "budget.command", "slurm.account_rule"),
    "mlp": tuple(f"partitions.{name}.max_time" for name in ("PGR-Standard", "Teach-Standard")),
    "ilcc": ("allocation.partition",),
}

#: Words of the notes and sentences that a user has to be told.
WORDS = {
    "ulysses": ("SISSA VPN", "no backup, never purged"),
    "leonardo": ("browser", "certificate is valid for 12 hours", "absolute paths"),
    "m3": ("five wrong passwords within ten minutes block you for ten minutes",),
    "cvl-uwa": ("training.cloud.cvl.org.au",),
    "snellius": (
        *("addresses that are on its list", "doornode.surfsara.nl"),
        "lock your address out of Snellius for 24 h",
    ),
    "narval": ("15th of each month", "counts as the job's memory", "Duo", "nearline"),
    "rorqual": ("370G to 3360G",),
    "trillium": ("takes no passwords", "Compute nodes can only read it"),
    "tamia": ("only be reached from Canada",),
    "killarney": ("only be reached from some countries",),
    "mlp": ("Informatics VPN", "without any backup", "A full one ends jobs within seconds"),
}


def _value(values: dict[str, Any], key: str) -> Any:
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


@pytest.mark.parametrize("name", sorted(FACTS))
def test_each_value_is_the_one_that_is_known(name: str) -> None:
    values = dict(describe(name).values)
    got = {key: _value(values, key) for key in FACTS[name]}
    assert {key: tuple(x) if isinstance(x, list) else x for key, x in got.items()} == FACTS[name]


def test_no_site_is_left_out() -> None:
    assert set(FACTS) == SITES


@pytest.mark.parametrize("name", sorted(UNSURE))
def test_what_is_only_heard_of_is_marked_so(name: str) -> None:
    profile = describe(name).profile
    assert [key for key in UNSURE[name] if profile.is_sure(key)] == []


@pytest.mark.parametrize("name", sorted(WORDS))
def test_what_a_user_has_to_be_told_is_there(name: str) -> None:
    text = str(describe(name).values)
    assert [words for words in WORDS[name] if words not in text] == []


def test_no_key_of_a_host_is_shipped() -> None:
    """None of the sites has published those of its present hosts."""
    for name in SITES:
        text = str(describe(name).values)
        assert "SHA256:" not in text and "ssh-ed25519" not in text, name


def test_a_cap_that_is_unsure_refuses_nothing() -> None:
    allocation = clusters.load("leonardo").allocation_for("trial", {"time": "00:45:00"})
    assert allocation.time == "00:45:00"


def _used_by(key: Key) -> set[str]:
    """The sites whose own file gives a key."""
    found = set()
    for name in NAMES:
        values = parse_toml((BUILTIN / f"{name}.toml").read_text(encoding="utf-8"), name)
        table = values.get(key.section, {}) if key.section else values
        tables = table.values() if key.section in NAMED_SECTIONS else [table]
        if any(key.name in each for each in tables):
            found.add(name)
    return found


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.section}.{key.name}")
def test_each_key_names_a_site_that_needs_it(key: Key) -> None:
    site, used = needed_by(key), _used_by(key)
    assert bool(site) >= bool(used), f"{sorted(used)} have it"
    assert not site or site in NAMES
    # A key that people give, such as an account, stands in no profile of a site.
    assert not (site and used) or site in used or key.section in NAMED_SECTIONS
