#!/bin/sh
# keep_log.sh LOG FOLDER: the log of salloc becomes the job's own, under a name that every
# connect knows. salloc has it open and goes on writing to it.
umask 077
mkdir -p "$2" && mv -f "$1" "$2/salloc.log"
