"""Programs that the server starts beside itself; each is one file that needs no jupyter-hpc."""
