#!/bin/sh
# Called by PAM when an SSH session opens and closes. Does what systemd-logind
# does with KillUserProcesses=yes: every process of a session is in a group of
# its own, wherever it moves, and ends with the session.
scope=/sys/fs/cgroup/freezer/session-$PPID
case $PAM_TYPE in
open_session)
  mkdir -p "$scope" && echo "$PPID" >"$scope/cgroup.procs"
  ;;
close_session)
  # sshd and this script are members too; they leave first.
  echo "$PPID" >/sys/fs/cgroup/freezer/cgroup.procs
  echo "$$" >/sys/fs/cgroup/freezer/cgroup.procs
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    members=$(cat "$scope/cgroup.procs") || break
    [ -n "$members" ] || break
    # shellcheck disable=SC2086 # one word for each process
    kill -KILL $members
    sleep 0.05
  done
  rmdir "$scope"
  ;;
esac
exit 0
