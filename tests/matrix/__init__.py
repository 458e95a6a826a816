"""The releases of Slurm side by side: 20.11, 22.05, 24.11 and 26.05.

`make matrix` makes what is missing of their root file systems (tests/cluster/roots.py) and runs,
on each, the conformance table and everything that the product does with a cluster; `make test`
runs the short set of test_newest.py, where the newest release is there.

    __main__.py        what `make matrix` runs
    release.py         a cluster of a release and the laptop in front of it
    test_newest.py     the short set: conformance, one session, one job
    test_release.py    transports, submit, sweep, chain, requeue, results, from a laptop
"""
