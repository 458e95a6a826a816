"""The text of every configuration file of a cluster, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.cluster.layout import (
    CLUSTER_NAME,
    CPU_NODE,
    GPU_NODE,
    GPU_TYPES,
    HOSTS,
    LOGIN,
    NODES,
    USERS,
    Slot,
)
from tests.cluster.switches import Switches

#: SHA-512 crypt of layout.PASSWORD, for the clusters that ask for it.
_PASSWORD_HASH = (
    "$6$testcluster$PDPz2KG/fUqoitcXvxLKNNHaBG4vakP946mBYbtbEqmvdR6hjcO4ZY0TMZhk"
    "pLMNftzHcgZSNu8Sa0lWrqmUr1"
)

DATABASE_PASSWORD = "only-inside-the-login-host"


def slurm_conf(slot: Slot, switches: Switches, *, cgroups: bool) -> str:
    """slurm.conf: nodes that claim more than this machine has, and short time-outs."""
    tracking = "cgroup" if cgroups else "linuxproc"
    contain = switches.adopt or switches.private_tmp
    release = switches.root.slurm
    # Renamed with 25.11.
    private_tmp = (
        "JobContainerType=job_container/tmpfs"
        if release < (25, 11)
        else "NamespaceType=namespace/tmpfs"
    )
    node = "CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=32000"
    gres = ",".join(f"gpu:{kind}:{GPU_TYPES.count(kind)}" for kind in dict.fromkeys(GPU_TYPES))
    features = ",".join(dict.fromkeys(GPU_TYPES))
    lines = [
        f"ClusterName={CLUSTER_NAME}",
        f"SlurmctldHost={LOGIN}({slot.address(LOGIN)})",
        "SlurmUser=slurm",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        # A requeued job waits for this long; the default is two minutes.
        "AuthInfo=cred_expire=10",
        "StateSaveLocation=/var/spool/slurmctld",
        "SlurmdSpoolDir=/var/spool/slurmd",
        "SlurmctldPidFile=/run/slurm/slurmctld.pid",
        "SlurmdPidFile=/run/slurm/slurmd.pid",
        "SlurmctldLogFile=/var/log/slurmctld.log",
        "SlurmdLogFile=/var/log/slurmd.log",
        f"ProctrackType=proctrack/{tracking}",
        f"TaskPlugin=task/{'cgroup' if cgroups else 'none'}",
        "MpiDefault=none",
        "ReturnToService=2",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=15",
        "MessageTimeout=10",
        f"InactiveLimit={switches.inactive_limit}",
        "KillWait=5",
        "BatchStartTimeout=10",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=2,bf_resolution=1,bf_continue,"
        "sched_interval=2,batch_sched_delay=0",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SlurmdParameters=config_overrides",
        "GresTypes=gpu",
        "PriorityType=priority/multifactor",
        "PriorityWeightAge=100",
        "PriorityWeightFairshare=1000",
        "PriorityWeightQOS=1000",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=2",
        "DefMemPerCPU=1024",
        *(["PrologFlags=Contain"] if contain else []),
        *([private_tmp] if switches.private_tmp else []),
        *(["JobSubmitPlugins=lua"] if switches.batch_only else []),
        *_accounting_lines(switches),
        *switches.slurm_lines,
        f"NodeName={GPU_NODE} NodeAddr={slot.address(GPU_NODE)} {node} "
        f"Gres={gres} Feature={features}",
        f"NodeName={CPU_NODE} NodeAddr={slot.address(CPU_NODE)} {node}"
        + (f" Gres={gres} Feature={features}" if switches.two_gpu_nodes else ""),
        f"PartitionName=gpu Nodes={GPU_NODE} MaxTime=04:00:00 DefaultTime=00:10:00",
        f"PartitionName=cpu Nodes={CPU_NODE} Default=YES MaxTime=1-00:00:00 DefaultTime=00:10:00",
        *(
            [f"PartitionName=wide Nodes={','.join(NODES)} DefaultTime=00:10:00"]
            if switches.two_gpu_nodes
            else []
        ),
    ]
    return _text(lines)


def _accounting_lines(switches: Switches) -> list[str]:
    release = switches.root.slurm
    if not switches.accounting:
        # From 23.02 on, none is what is not named.
        return ["AccountingStorageType=accounting_storage/none"] if release < (23, 2) else []
    kinds = [f"gres/gpu:{kind}" for kind in dict.fromkeys(GPU_TYPES)]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={LOGIN}",
        "AccountingStorageEnforce=associations,limits,qos",
        f"AccountingStorageTRES={','.join(['gres/gpu', *kinds])}",
        "AccountingStoreFlags=job_comment,job_script,job_env"
        if release >= (21, 8)
        else "AccountingStoreJobComment=yes",
    ]


def gres_conf(switches: Switches) -> str:
    """gres.conf; without File= a node is declared invalid."""
    return _text(
        f"NodeName={node} Name=gpu Type={kind} File=/dev/nvidia{number}"
        for node in switches.gpu_nodes
        for number, kind in enumerate(GPU_TYPES)
    )


def cgroup_conf(release: tuple[int, int], *, cgroups: bool) -> str:
    """cgroup.conf for controllers of version 1 that init.sh has mounted."""
    plugin = "cgroup/v1" if cgroups else "disabled"
    return _text(
        [
            *([f"CgroupPlugin={plugin}"] if release >= (22, 5) else []),
            *(["CgroupAutomount=no"] if release < (24, 5) else []),
            "ConstrainCores=no",
            "ConstrainRAMSpace=yes",
            "ConstrainSwapSpace=no",
            "ConstrainDevices=yes",
        ]
    )


def job_container_conf() -> str:
    """job_container.conf: /tmp and /dev/shm of a job are its own."""
    return _text(["AutoBasePath=true", "BasePath=/var/spool/private-tmp"])


def job_submit_lua() -> str:
    """A site rule that only accepts jobs with a script."""
    return """\
function slurm_job_submit(job, partitions, uid)
    if job.script == nil or job.script == "" then
        slurm.log_user("Interactive jobs are not allowed here, use sbatch.")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
"""


def slurmdbd_conf() -> str:
    """slurmdbd.conf: the database is on the same host, reached by its socket."""
    return _text(
        [
            "AuthType=auth/munge",
            f"DbdHost={LOGIN}",
            "SlurmUser=slurm",
            "LogFile=/var/log/slurmdbd.log",
            "PidFile=/run/slurm/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=slurm",
            f"StoragePass={DATABASE_PASSWORD}",
            "StorageLoc=slurm_acct_db",
        ]
    )


def sshd_config(host: str, switches: Switches) -> str:
    """sshd_config of one host."""
    on_login = host == LOGIN
    ask = on_login and switches.mfa
    own_keys_only = not on_login and not switches.laptop_key_on_nodes
    return _text(
        [
            "Port 22",
            "HostKey /etc/ssh/ssh_host_ed25519_key",
            "PidFile /run/sshd.pid",
            "LogLevel VERBOSE",
            "UsePAM yes",
            "UseDNS no",
            "PrintMotd no",
            "PermitRootLogin no",
            "PasswordAuthentication no",
            f"KbdInteractiveAuthentication {'yes' if ask else 'no'}",
            *(["AuthenticationMethods keyboard-interactive"] if ask else []),
            *(["AuthorizedKeysFile /etc/ssh/node_keys/%u"] if own_keys_only else []),
            *(
                ["TrustedUserCAKeys /etc/ssh/authority.pub", "AuthorizedKeysFile none"]
                if on_login and switches.certificates
                else []
            ),
            *(["DisableForwarding yes"] if on_login and not switches.login_forwarding else []),
            *(["DenyUsers *"] if not on_login and switches.node_ssh == "denied" else []),
            # Tests open many connections at once; the defaults would drop some at random.
            "MaxStartups 100:30:200",
            "MaxSessions 50",
            "AcceptEnv LANG LC_*",
            "Subsystem sftp /usr/lib/openssh/sftp-server",
        ]
    )


def pam_sshd(host: str, switches: Switches, *, adopt_module: str = "") -> str:
    """The PAM stack of sshd, complete in itself: it includes nothing of this machine's."""
    on_login = host == LOGIN
    if on_login and switches.mfa:
        lines = [
            "auth     required  pam_unix.so nodelay",
            "auth     required  pam_google_authenticator.so user=root no_strict_owner "
            "allowed_perm=0600 secret=/etc/ssh/second_factor/${USER}",
        ]
    else:
        lines = ["auth     required  pam_deny.so"]
    lines += ["account  required  pam_unix.so"]
    if not on_login and switches.adopt:
        lines += [f"account  required  {adopt_module} action_no_jobs=deny action_unknown=newest"]
    lines += ["session  required  pam_limits.so", "session  required  pam_env.so"]
    if on_login and switches.kill_at_logout:
        lines += ["session  required  pam_exec.so quiet /etc/ssh/session_scope.sh"]
    return _text(lines)


def second_factor(secret: str) -> str:
    """A secret file of google-authenticator: codes by time, usable more than once."""
    return _text([secret, '" TOTP_AUTH', '" WINDOW_SIZE 5'])


def passwd(existing: str) -> str:
    """/etc/passwd with our users added to those of the machine's packages."""
    added = [f"{u.name}:x:{u.uid}:{u.uid}:{u.name}:{u.home}:{u.shell}" for u in USERS]
    return _with_users(existing, added)


def group(existing: str) -> str:
    """/etc/group, one group for each user."""
    return _with_users(existing, [f"{user.name}:x:{user.uid}:" for user in USERS])


def shadow(existing: str) -> str:
    """/etc/shadow; the one password only matters where PAM asks for it."""
    added = [f"{user.name}:{_PASSWORD_HASH}:19000:0:99999:7:::" for user in USERS]
    return _with_users(existing, added)


def _with_users(existing: str, added: list[str]) -> str:
    ours = {user.name for user in USERS}
    kept = [line for line in existing.splitlines() if line.split(":")[0] not in ours]
    return _text([*kept, *added])


def hosts(slot: Slot) -> str:
    """/etc/hosts of the cluster."""
    lines = [f"{slot.address(host)} {host} {host}.{CLUSTER_NAME}.test" for host in HOSTS]
    return _text(["127.0.0.1 localhost", *lines])


def known_hosts(slot: Slot, public_keys: Mapping[str, str], known: Iterable[str]) -> str:
    """known_hosts lines for the hosts in `known`."""
    lines = []
    for host in known:
        names = [host, slot.address(host)] + ([slot.login_address] if host == LOGIN else [])
        lines.append(f"{','.join(names)} {public_keys[host]}")
    return _text(lines)


def laptop_ssh_config(
    slot: Slot, user: str, key: str, known_hosts_file: str, port: int | None
) -> str:
    """The laptop's ssh_config; `port` is that of a relay on the laptop, if one is in between."""
    address = ["HostName 127.0.0.1", f"Port {port}"] if port else [f"HostName {slot.login_address}"]
    return _text(
        [
            f"Host {LOGIN}",
            *(f"  {line}" for line in address),
            f"  HostKeyAlias {LOGIN}",
            f"Host {' '.join(NODES)}",
            f"  ProxyJump {LOGIN}",
            "Host *",
            f"  User {user}",
            f"  IdentityFile {key}",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {known_hosts_file}",
            "  GlobalKnownHostsFile /dev/null",
            "  StrictHostKeyChecking yes",
        ]
    )


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
