#!/bin/sh
# check.sh PREFIX MODULE...: inside a job, whether the environment starts there.
prefix=$1
shift
for name; do module load "$name" >/dev/null 2>&1; done
if [ -e "$prefix.squashfs" ] && [ ! -x "$prefix/bin/python" ]; then
    squashfuse "$prefix.squashfs" "$prefix" || exit 1
fi
"$prefix/bin/python" -c 'import jupyterlab, jupyter_hpc, ipykernel, platform
print("python=" + platform.python_version())
print("jupyterlab=" + jupyterlab.__version__)
print("jupyter_hpc=" + jupyter_hpc.__version__)' </dev/null
