"""What the panels say when something is missing, in the product's own words."""

from __future__ import annotations

import pynvml  # type: ignore[import-untyped]

from jupyter_hpc.errors import HpcError
from jupyter_hpc.gpu.nvml import NvmlSource
from jupyter_hpc.gpu.sampler import silent_driver
from jupyter_hpc.gpu.visible import Wanted, no_gpu_in_job
from jupyter_hpc.node.services.offload import silent_files
from jupyter_hpc.node.services.session import outside_of_a_job
from jupyter_hpc.runner import Completed
from jupyter_hpc.slurm.failures import failure

#: What NVML may say when it is started.
_NVML = (
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_UNKNOWN,
)

_SLURM = (
    (127, ""),
    (1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
    (1, "squeue: fatal: Could not establish a configuration source"),
    (1, "squeue: error: something_that_nobody_has_heard_of/" + 10 * "before/"),
)


def sentences() -> list[tuple[str, HpcError]]:
    """(a topic whose section shows it, the sentence)."""
    source = NvmlSource(Wanted(everything=True), binding=pynvml)
    return [
        ("gpus", no_gpu_in_job()),
        ("gpus", silent_driver(9)),
        *(("gpus", source._init_failure(pynvml.NVMLError(code))) for code in _NVML),
        *(("jobs", failure(Completed(("squeue",), code, "", said))) for code, said in _SLURM),
        ("jobs", failure(Completed(("sacct",), 1, "", "Slurm accounting storage is disabled"))),
        ("session", outside_of_a_job()),
        ("session", silent_files("The file system of /scratch", 20)),
    ]
