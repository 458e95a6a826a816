"""What Slurm tells a process about its own job."""

from __future__ import annotations

from jupyter_hpc.slurm.job_environment import read_job_environment

#: A step of `srun --jobid --overlap` on Slurm 22.05, from the test cluster.
STEP = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NAME": "python",
    "SLURM_STEP_ID": "1",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NODELIST": "gpu01",
    "SLURM_GPUS_ON_NODE": "1",
    "SLURM_STEP_GPUS": "0",
    "SLURM_CPUS_ON_NODE": "1",
}


def test_outside_a_job_there_is_nothing() -> None:
    assert read_job_environment({"PATH": "/bin"}) is None
    assert read_job_environment({"SLURM_JOB_ID": "x"}) is None


def test_a_step_knows_its_job() -> None:
    found = read_job_environment(STEP)
    assert found is not None
    assert (found.id, found.partition, found.nodes) == ("17", "gpu", ("gpu01",))
    assert (found.gpus, found.gpu_list) == (1, "0")
    assert found.name is None, "in a step the variable holds the step's name"
    assert (found.ends, found.cpus, found.memory_mb) == (None, None, None)


def test_a_batch_job_on_several_nodes() -> None:
    found = read_job_environment(
        {
            "SLURM_JOB_ID": "20",
            "SLURM_JOB_NAME": "my job",
            "SLURM_CLUSTER_NAME": "mini",
            "SLURM_JOB_NODELIST": "n[01-03]",
            "SLURM_JOB_CPUS_PER_NODE": "4(x2),8",
            "SLURM_MEM_PER_CPU": "100",
            "SLURM_GPUS_PER_NODE": "a100:2",
            "SLURM_JOB_START_TIME": "1000",
            "SLURM_JOB_END_TIME": "4600",
        }
    )
    assert found is not None
    assert found.nodes == ("n01", "n02", "n03")
    assert (found.cpus, found.memory_mb) == (16, 1600)
    assert (found.gpus, found.gpu_type) == (6, "a100")
    assert (found.started, found.ends, found.name) == (1000, 4600, "my job")


def test_the_gpus_of_one_node_say_nothing_about_another() -> None:
    found = read_job_environment({**STEP, "SLURM_JOB_NODELIST": "gpu[01-02]"})
    assert found is not None
    assert (found.nodes, found.gpus, found.gpu_list) == (("gpu01", "gpu02"), None, "0")


def test_an_array_task_is_named_as_squeue_names_it() -> None:
    environ = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    found = read_job_environment(environ)
    assert found is not None and found.id == "7_2"


def test_odd_values_are_not_known() -> None:
    found = read_job_environment(
        {
            "SLURM_JOB_ID": "9",
            "SLURM_JOB_NODELIST": "box[000x111]",
            "SLURM_JOB_END_TIME": "soon",
            "SLURM_MEM_PER_NODE": "0",
        }
    )
    assert found is not None
    assert (found.ends, found.memory_mb) == (None, None)
    assert found.nodes == ("box[000x111]",)
