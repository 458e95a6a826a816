"""The embedded cluster: real SSH, a small Slurm work-alike and simulated GPUs.

It runs as the current user, needs no root and no network beyond loopback, and
ends with its process, whatever way that process ends.

    cluster.py     DemoCluster and serve(): start, stop, and what they wire together
    layout.py      the folder: keys, ssh_config, homes, node-local temporary folders
    processes.py   finding and ending the processes of the cluster
    reaper.py      the small parent of all of them, which outlives a killed demo
    spawner.py     starting processes through the reaper
    ssh_files.py   keys, known_hosts and ssh_config
    ssh_server.py  login host and nodes as asyncssh servers; ssh_session.py runs their commands
    programs.py    the commands on the hosts' PATH; client.py is behind them and asks the controller
    gpus.py        the simulated GPUs and where their numbers can be read; nvidia_smi.py
    slurm/         the controller and one module per command
"""
