#!/bin/sh
# Runs an agent over a checkout in a CI job, and leaves what it changed as a diff for review.
# It works inside the limits of a container: without user namespaces golem confines commands
# by Landlock, and without overlays the session works on a copy.
#
#   run.sh DIRECTORY RESULTS COMMAND…
#
# RESULTS gets changes.diff and changes.json. Your files stay as they are: a person applies
# the diff after reading it. Exit code: that of the agent; 5 if the machine cannot confine
# commands at all.
set -eu
[ $# -ge 3 ] || { echo "usage: run.sh DIRECTORY RESULTS COMMAND…" >&2; exit 2; }
mkdir -p "$2"
results=$(cd "$2" && pwd)
cd "$1"
shift 2

# State that ends with the job. Name a directory on a volume to let golem use overlays.
GOLEM_STATE=${GOLEM_STATE:-$(mktemp -d)}
export GOLEM_STATE

# What this machine can do goes into the job's log. To require the strongest level, add
# --jail namespaces to golem exec.
golem doctor || true

code=0
golem exec ${GOLEM_CI_FLAGS:-} -- "$@" || code=$?

golem diff >"$results/changes.diff"
golem diff --json >"$results/changes.json" || true # it fails if there are no changes
echo "the agent's changes are in $results/changes.diff" >&2
exit $code
