"""A real Slurm and OpenSSH cluster on this machine, for tests and developers.

Each host is a set of Linux namespaces with daemons from Debian's packages: one
login host, two compute hosts that only the login host can reach, one shared
/home. The machine itself plays the laptop.

    fixtures.py     pytest fixtures: cluster, healed_cluster, cluster_with
    __main__.py     clusters by hand: python -m tests.cluster up
    switches.py     what can differ from one cluster to the next
    roots.py        other releases of Slurm: root file systems of Debian's suites (make_root.sh)
    cluster.py      Cluster: bring it up, take it down
    handles.py      what a test can do with it: look, run, break, repair
    laptop.py       a laptop: keys, ssh_config, cluster profiles
    layout.py       names, addresses and users
    config.py       the text of every configuration file
    folders.py      the files of one cluster, written before it starts
    room.py         the namespaces (room.sh, init.sh) and their lifeline
    host.py         one host: commands, processes, daemons
    network.py      cables: plug in, cut, restore, black hole
    slow.py         a line that holds every byte back for a while
    homes.py        homes that are full or read-only
    accounting.py   MariaDB and slurmdbd, filled once and cached
    environment.py  the Python that the cluster's users run, cached (build_env.sh)
    slots.py        which cluster number is free; the removal of every trace
    packages.py     what this machine lacks, in one sentence
"""
