#!/bin/sh
# uses: detach.sh await_one.sh
# start_and_await.sh SESSION TICKS COMMAND...
#
# A step goes on without its srun, whose listening ports are open to the whole network:
# once the step runs, srun and the shell around it are ended.
session=$1 ticks=$2
shift 2
detach "$session/srun.log" "$@"
srun=$!
await_one "$session" "$ticks" "$srun" address failed ended
if [ -s "$session/address" ]; then
    kill -s KILL -- "-$srun" 2>/dev/null
elif ! kill -0 "$srun" 2>/dev/null; then
    # nobody starts anything any more
    rm -f "$session/lock"
fi
exit 0
