"""Causes that the end of a log names."""

from __future__ import annotations

import pytest

from jupyter_hpc.batch.runs.log_endings import recognised


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("OSError: [Errno 28] No space left on device: '/scratch/a.pt'", "/scratch/a.pt could not"),
        ("cp: error writing 'b/c.bin': No space left on device", "b/c.bin could not"),
        ("OSError: [Errno 122] Disk quota exceeded: 'w.npy'", "w.npy could not"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=3.0.", "more memory than"),
        ("MemoryError", "MemoryError"),
        # torch 1.x, a kernel of it, JAX, TensorFlow.
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total)",
            "GPU was full when it asked for 20.00 MiB more",
        ),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "GPU was full"),
        (
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2.00GiB.",
            "GPU was full when it asked for 2.00GiB more",
        ),
        (
            "ResourceExhaustedError: OOM when allocating tensor on /job:l/device:GPU:0",
            "GPU was full",
        ),
        (
            "slurmstepd-cpu01: error: *** JOB 26 ON cpu01 CANCELLED AT 2026-11-19T02:31:54 ***",
            "ended from outside",
        ),
        ("ModuleNotFoundError: No module named 'a.b'", "no module 'a.b'"),
        # The newest counts: one that was caught before is not the cause.
        ("MemoryError\nModuleNotFoundError: No module named 'x'", "no module 'x'"),
    ],
)
def test_known_causes(log: str, words: str) -> None:
    found = recognised(f"epoch 1\nTraceback (most recent call last):\n{log}\nsrun: error: task 0")
    assert found is not None and words in found.text


def test_an_exception_is_named_if_the_program_ended_of_it() -> None:
    log = 'Traceback (most recent call last):\n  File "t.py", line 1\n    f()\nKeyError: 3\n'
    found = recognised(log)
    assert found is not None and found.text == "The program ended with KeyError: 3."
    assert recognised(log, code=3) is None, "it was caught: the program chose its own code"


def test_others_are_left_to_slurm() -> None:
    assert recognised("loss: 0.1\nValueError: the disk is not there\n") is None
    due = "slurmstepd: error: *** JOB 2 ON n CANCELLED AT 2026-11-19T02:31:54 DUE TO TIME LIMIT ***"
    assert recognised(due) is None
    step = "slurmstepd: error: *** STEP 26.0 ON n CANCELLED AT 2026-11-19T02:31:54 ***"
    assert recognised(step) is None
