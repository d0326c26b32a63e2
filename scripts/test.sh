#!/usr/bin/env bash
# Runs the tests. `make test` runs those that need this machine only, --kubernetes, as the first word, those that need a
# cluster, --slurm those that need Slurm; --thorough and --slow run both halves of the tests that are marked so.
# Other words are handed on to pytest; with a -m among them they choose the tests themselves.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# With this variable, each of the thousands of commands that the tests start would compile symphony again.
unset PYTHONDONTWRITEBYTECODE

python=.venv/bin/python
pytest=("$python" -m pytest)

# However this ends, it leaves no cluster, tmux server or engine behind.
if [ -z "${SYMPHONY_GUARDED:-}" ]; then
    SYMPHONY_GUARDED=1 exec "$python" -m toolchain.guard scripts/test.sh "$@"
fi
unset SYMPHONY_GUARDED

# Many tests start engines and wait for processes: beside others on two cores one may run out of its time. Failures
# run once more alone; a test that only passes alone is named; a test that fails twice fails the run.
# The first word says how many at once, on two cores: most of them mostly wait.
side_by_side() {
    local workers=$1
    shift
    rm -f .pytest_cache/v/cache/lastfailed
    # In the order of tests/conftest.py, not by the number of tests in a file.
    "${pytest[@]}" -n "$workers" --max-worker-restart=0 --dist loadfile --no-loadscope-reorder "$@"
    local code=$?
    [ "$code" = 1 ] || return "$code"
    failed=$("$python" -c '
import json
print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")')
    echo
    echo "once more, alone: $(echo "$failed" | wc -l) tests that failed"
    "${pytest[@]}" --last-failed --last-failed-no-failures none "$@" || return 1
    echo "passed only alone, mend these:"
    echo "$failed"
}

# A part of the tests: how many at once, which, and words for pytest. Words may choose tests of another part only.
part() {
    local workers=$1 marks=$2
    shift 2
    side_by_side "$workers" -rs -m "$marks" "$@"
    local code=$?
    [ "$code" = 0 ] || { [ "$code" = 5 ] && [ $# -gt 0 ]; } || return "$code"
}

# The tests would build the plugin and the cluster's programs too, but pytest does not show what they print meanwhile.
on_a_cluster() {
    local workers=$1 marks=$2 reason=""
    shift 2
    if [ -z "${SYMPHONY_TEST_KUBECONFIG:-}" ]; then
        reason=$("$python" -c 'from toolchain.kubernetes.cluster import impossible; print(impossible())') || return 1
        if [ -n "$reason" ]; then
            echo "left out, the tests that need a cluster: $reason"
            [ -z "${CI:-}" ]
            return
        fi
        "$python" -m toolchain.kubernetes build || return 1
    fi
    "$python" -m toolchain.plugins --only-build || return 1
    echo "the tests that need a cluster:"
    part "$workers" "kubernetes and $marks" "$@"
}

both() { part "$1" "not kubernetes and not slurm and $2" "${@:3}" && on_a_cluster "$@"; }

chosen=${1:-}
case $chosen in --kubernetes | --slurm | --thorough | --slow) shift ;; esac
workers=4
if [ "$chosen" = --slow ]; then
    # They kill API servers and wait for minutes: one at a time.
    workers=1
else
    # A test that hangs where no signal reaches it, so that its own timeout cannot end it, says where and fails.
    pytest+=(-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true)
fi
case "$chosen $* " in
*" -m "*) side_by_side "$workers" "$@" ;;
--kubernetes*) CI=1 on_a_cluster "$workers" "not thorough and not slow" "$@" ;;
--slurm*) CI=1 part 3 "slurm and not slow" "$@" ;;
--thorough*) both "$workers" "thorough and not slow" "$@" ;;
--slow*) both "$workers" slow "$@" ;;
*) part "$workers" "not kubernetes and not slurm and not thorough and not slow" "$@" ;;
esac
