"""Programs that travel with a job; each is one file that needs no jupyter-hpc."""
