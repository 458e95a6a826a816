"""`python -m jupyter_hpc` is `jupyter-hpc`."""

from jupyter_hpc.cli.main import main

if __name__ == "__main__":
    main()
