#!/bin/sh
# switch.sh PREFIX ENV KERNEL: leads the link PREFIX to ENV, which build.sh has made, and
# registers its kernel. PREFIX leads to a whole environment at every moment, if it did before.
prefix=$1 env=$2 kernel=$3
kernels=${JUPYTER_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/jupyter}/kernels
new=$kernels/.$kernel.new
fault() {
    rm -rf "$new" "$env.state.new" "$prefix.new"
    printf 'jupyter-hpc: fault %s\n' "$1"
    exit 28
}
read -r _ key <"$env.state" || fault "$env.state"
# Whatever needs room comes first.
rm -rf "$new"
mkdir -p "$kernels" || fault "$kernels"
cp -R "$env.kernel/share/jupyter/kernels/$kernel" "$new" || fault "$kernels"
printf 'used %s\n' "$key" >"$env.state.new" || fault "$env.state.new"
# The whole folder of an earlier release goes aside.
if [ ! -L "$prefix" ] && [ -e "$prefix/.jupyter-hpc" ]; then
    printf 'used -\n' >"${env%/*}/0.state" || fault "$prefix"
    mv -T "$prefix" "${env%/*}/0" || fault "$prefix"
fi
ln -sfn "${env#"${prefix%/*}/"}" "$prefix.new" || fault "$prefix"
mv -fT "$prefix.new" "$prefix" || fault "$prefix"
mv -f "$env.state.new" "$env.state" || fault "$env.state"
rm -rf "${kernels:?}/$kernel"
mv -T "$new" "$kernels/$kernel" || fault "$kernels"
