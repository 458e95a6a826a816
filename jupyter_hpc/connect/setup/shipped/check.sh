#!/bin/sh
# check.sh ENV MODULE...: inside a job, whether the environment starts there.
env=$1
shift
for name; do module load "$name" >/dev/null 2>&1; done
"$env/bin/python" -c 'import jupyterlab, jupyter_hpc, ipykernel, platform
print("python=" + platform.python_version())
print("jupyterlab=" + jupyterlab.__version__)
print("jupyter_hpc=" + jupyter_hpc.__version__)' </dev/null
