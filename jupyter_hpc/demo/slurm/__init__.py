"""The Slurm work-alike: a controller in the demo's process and the commands that ask it.

It knows the options, formats, messages and exit codes that this product uses, as
Slurm 22.05 has them, and says no to all others.

    inventory.py     nodes, partitions, accounts and QOS
    jobs.py          jobs, steps, allocations: values
    request.py       salloc's, sbatch's and srun's options, read into a request
    admission.py     what is refused, and what must wait whatever is free (pure)
    planner.py       where and when a request fits beside others (pure)
    scheduling.py    one look at the queue: who starts, and why others wait
    jobtable.py      all jobs and their numbers
    controller.py    the living jobs: submit, start, limits, cancel, hold, requeue
    steps.py         the processes of steps and batch scripts
    step_output.py   their input and output; step_watch.py what srun says about them
    environment.py   SLURM_* and CUDA_VISIBLE_DEVICES
    call.py          one command that waits for its answer; server.py accepts them
    options.py       command lines read as getopt_long does
    columns.py       the format languages of squeue and sinfo; listing.py the others' tables
    facts.py records.py units.py patterns.py   what the commands print, in Slurm's words
    salloc.py sbatch.py srun.py squeue.py sacct.py scontrol.py sinfo.py scancel.py
    sacctmgr.py sshare.py sstat.py             one command each
"""
