"""Pending reasons and end states: every one has words, and the words fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.slurm.reasons import explain_reason, explain_state
from jupyter_hpc.slurm.states import Phase, canonical_state, phase_of

#: Every reason of Slurm 26.05 (SchedMD/slurm, src/common/job_state_reason.c) and those that
#: only older releases have (22.05, src/common/slurm_protocol_defs.c), in families.
_THINGS = ("Cpu", "Mem", "Memory", "Node", "GRES", "Energy", "License", "BB", "Billing", "Unknown")
LIMITS = [
    *(f"{who}Grp{thing}{span}" for who in ("Assoc", "QOS") for thing in _THINGS
      for span in ("", "Limit", "Minutes", "RunMinutes")),
    *(f"{who}Max{thing}{per}" for who in ("Assoc", "QOS") for thing in _THINGS
      for per in ("PerJob", "PerNode", "MinutesPerJob", "PerJobLimit")),
    *(f"QOSMax{thing}PerUser" for thing in _THINGS),
    *(f"QOSMin{thing}" for thing in _THINGS),
    *(f"Max{thing}PerAccount" for thing in _THINGS),
    *(f"Max{thing}RunMinsPer{who}" for thing in _THINGS for who in ("User", "Account")),
    "QOSGrpCPUMinutesLimit", "QOSGrpCPURunMinutesLimit", "AssocGrpCPUMinutesLimit",
    "AssocGrpCPURunMinutesLimit", "QOSGrpJobsLimit", "AssocGrpJobsLimit", "AssocMaxJobsLimit",
    "QOSGrpSubmitJobsLimit", "AssocGrpSubmitJobsLimit", "AssocMaxSubmitJobLimit",
    "QOSMaxSubmitJobPerUserLimit", "MaxSubmitJobsPerAccount", "MaxJobsPerAccount",
    "QOSGrpWallLimit", "AssocGrpWallLimit", "QOSMaxWallDurationPerJobLimit",
    "AssocMaxWallDurationPerJobLimit", "QOSMaxCpuMinutesPerJobLimit", "QOSMinCpuNotSatisfied",
    "QOSMaxJobsPerUserLimit", "QOSMaxCpuPerUserLimit", "QOSMaxNodePerUserLimit",
]  # fmt: skip
CODES = [
    "None",
    "Prolog",
    "Priority",
    "Dependency",
    "Resources",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "PartitionDown",
    "PartitionInactive",
    "JobHeldAdmin",
    "JobHeldUser",
    "NvidiaImexChannels",
    "BeginTime",
    "Licenses",
    "AssociationJobLimit",
    "AssociationResourceLimit",
    "AssociationTimeLimit",
    "Reservation",
    "ReqNodeNotAvail",
    "FrontEndDown",
    "SchedDefer",
    "NodeDown",
    "BadConstraints",
    "SystemFailure",
    "JobLaunchFailure",
    "NonZeroExitCode",
    "RaisedSignal",
    "TimeLimit",
    "InactiveLimit",
    "InvalidAccount",
    "InvalidQOS",
    "QOSUsageThreshold",
    "QOSJobLimit",
    "QOSResourceLimit",
    "QOSTimeLimit",
    "Cleaning",
    "QOSNotAllowed",
    "AccountNotAllowed",
    "DependencyNeverSatisfied",
    "JobHoldMaxRequeue",
    "JobArrayTaskLimit",
    "BurstBufferResources",
    "BurstBufferStageIn",
    "BurstBufferOperation",
    "PowerNotAvail",
    "PowerReserved",
    "DeadLine",
    "PartitionConfig",
    "AccountingPolicy",
    "FedJobLock",
    "OutOfMemory",
    "MaxMemPerLimit",
    "ReservationDeleted",
    "ReservationInvalid",
    "Constraints",
    "launch_failed_requeued_held",
    "job_requeued_in_held_state",
]
SENTENCES = [
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "ReqNodeNotAvail, UnavailableNodes:gpu[01-04]",
    "ReqNodeNotAvail, Reserved for maintenance",
    "launch failed requeued held",
    "job requeued in held state",
]


@pytest.mark.parametrize("code", [*CODES, *LIMITS, *SENTENCES])
def test_every_reason_has_words(code: str) -> None:
    explanation = explain_reason(code)
    assert explanation.known, code
    assert explanation.text.endswith(".") and explanation.advice.endswith(".")
    assert explanation.text[0].isupper()


@pytest.mark.parametrize(
    ("code", "words", "stuck"),
    [
        ("Priority", "higher priority", False),
        ("Resources", "next in line", False),
        ("(Resources)", "next in line", False),
        ("priority", "higher priority", False),
        ("PartitionTimeLimit", "longer than the partition allows", True),
        ("QOSMaxGRESPerUser", "all the GPUs that one user may have", False),
        ("QOSMaxJobsPerUserLimit", "You have as many jobs running as allowed", False),
        ("QOSMaxWallDurationPerJobLimit", "time limit is longer than its QOS allows", True),
        ("AssocGrpCpuLimit", "account use all the CPUs", False),
        ("AssocGrpGRESMinutes", "used up its budget", True),
        ("AssocGrpBillingRunMinutes", "reserved all the budget units time", False),
        ("QOSMaxMemoryPerJob", "more memory than its QOS allows for one job", True),
        ("QOSMinGRES", "fewer GPUs", True),
        ("MaxGRESPerAccount", "account under this QOS", False),
        ("JobHeldUser", "on hold", True),
        ("DependencyNeverSatisfied", "can never let it start", True),
        (SENTENCES[0], "down, drained or reserved", False),
        ("", "not looked at this job yet", False),
    ],
)
def test_what_is_said(code: str, words: str, stuck: bool) -> None:
    explanation = explain_reason(code)
    assert words in explanation.text
    assert explanation.stuck is stuck


@given(st.text())
def test_any_reason_is_told_in_one_clean_line(code: str) -> None:
    explanation = explain_reason(code)
    assert explanation.text
    assert not any(char in explanation.text for char in "\n\r\x1b\0")


def test_a_reason_of_a_newer_slurm_is_repeated() -> None:
    explanation = explain_reason("MoonPhase\x1b[31m")
    assert explanation.text == "Slurm gives the reason 'MoonPhase[31m'."
    assert not explanation.known


STATES = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
]


@pytest.mark.parametrize("state", STATES)
def test_every_end_has_words_and_a_cause(state: str) -> None:
    ending = explain_state(state)
    assert ending.text.startswith("The job") or ending.text.startswith("A node")
    assert ending.cause in {
        *("completed", "time_limit", "out_of_memory", "cancelled"),
        *("node_failure", "preempted", "failed"),
    }
    assert phase_of(state) is Phase.ENDED


@pytest.mark.parametrize(
    ("values", "words", "cause"),
    [
        ({"state": "CANCELLED", "cancelled_by": "you"}, "cancelled by you", "cancelled"),
        ({"state": "CANCELLED by 1000"}, "was cancelled", "cancelled"),
        ({"state": "FAILED", "exit_code": 3}, "exit code 3", "failed"),
        ({"state": "FAILED", "exit_code": 127}, "does not exist", "failed"),
        ({"state": "FAILED", "exit_code": 126}, "cannot be executed", "failed"),
        ({"state": "FAILED", "exit_code": 0, "signal": 9}, "signal 9", "failed"),
        ({"state": "FAILED", "exit_code": 137}, "signal 9", "failed"),
        ({"state": "FAILED", "exit_code": 139}, "segmentation", "failed"),
        ({"state": "FAILED", "signal": 53}, "cannot be written", "failed"),
        ({"state": "FAILED", "signal": 125}, "more memory", "out_of_memory"),
        ({"state": "FAILED", "reason": "OutOfMemory"}, "more memory", "out_of_memory"),
        ({"state": "FAILED", "reason": "InactiveLimit"}, "nothing of it seemed active",
         "cancelled"),
        ({"state": "FAILED", "reason": "NodeDown"}, "node", "node_failure"),
        ({"state": "TIMEOUT"}, "time limit", "time_limit"),
        ({"state": "EXPLODED"}, "'EXPLODED'", "failed"),
    ],
)  # fmt: skip
def test_how_it_ended(values: dict[str, object], words: str, cause: str) -> None:
    ending = explain_state(**values)  # type: ignore[arg-type]
    assert words in ending.text
    assert ending.cause == cause


@pytest.mark.parametrize(
    ("printed", "state", "phase"),
    [
        ("CANCELLED by 61001", "CANCELLED", Phase.ENDED),
        ("CANCELLED+", "CANCELLED", Phase.ENDED),
        ("PD", "PENDING", Phase.PENDING),
        ("R", "RUNNING", Phase.RUNNING),
        ("CG", "COMPLETING", Phase.ENDING),
        ("CF", "CONFIGURING", Phase.STARTING),
        ("REQUEUE_HOLD", "REQUEUE_HOLD", Phase.PENDING),
        ("SPECIAL_EXIT", "SPECIAL_EXIT", Phase.PENDING),
        ("STAGE_OUT", "STAGE_OUT", Phase.ENDING),
        ("SIGNALING", "SIGNALING", Phase.RUNNING),
        ("RESIZING", "RESIZING", Phase.RUNNING),
        ("SUSPENDED", "SUSPENDED", Phase.SUSPENDED),
        ("STOPPED", "STOPPED", Phase.SUSPENDED),
        ("hibernating", "HIBERNATING", Phase.UNKNOWN),
        ("", "", Phase.UNKNOWN),
    ],
)
def test_states(printed: str, state: str, phase: Phase) -> None:
    assert canonical_state(printed) == state
    assert phase_of(printed) is phase


@pytest.mark.parametrize(
    ("code", "never"),
    [
        ("PartitionTimeLimit", True),
        ("BadConstraints", True),
        ("AccountNotAllowed", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("AssocMaxCpuPerJobLimit", True),
        ("QOSMinGRES", True),
        # somebody else, a budget, or other jobs
        ("JobHeldUser", False),
        ("JobHeldAdmin", False),
        ("AssocGrpCPUMinutesLimit", False),
        ("AssocMaxJobsLimit", False),
        ("PartitionNodeLimit", False),
        ("Priority", False),
        ("", False),
    ],
)
def test_what_can_never_start_is_not_what_waits_for_somebody(code: str, never: bool) -> None:
    assert explain_reason(code).never is never
