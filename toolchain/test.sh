#!/usr/bin/env bash
# Runs the tests: those that need this machine only, then those that need a cluster; `make test` calls it, and with
# --thorough or --slow, as the first word, `make test-thorough` and `make test-slow`, for the tests marked so instead
# of all others.
# Other words are handed on to pytest; with a -m among them they choose the tests, and there is no second part.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where a shell forbids it, each of the thousands of commands that the tests start would compile symphony again.
unset PYTHONDONTWRITEBYTECODE

python=.venv/bin/python
pytest=("$python" -m pytest)

# Many tests start engines and wait for processes: beside others on two cores one may run out of its time. What failed
# runs once more alone; what only passes alone is named, so that it can be mended; what fails twice fails the run.
# The first word says how many at once, on two cores: most of them mostly wait. tests/longest.py says in which order.
side_by_side() {
    local workers=$1
    shift
    rm -f .pytest_cache/v/cache/lastfailed
    "${pytest[@]}" -n "$workers" --dist loadfile --no-loadscope-reorder "$@"
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

# A part of the tests: how many at once, which, and words for pytest. Words may choose tests of the other part only.
part() {
    local workers=$1 marks=$2
    shift 2
    side_by_side "$workers" -rs -m "$marks and $which" "$@"
    local code=$?
    [ "$code" = 0 ] || { [ "$code" = 5 ] && [ $# -gt 0 ]; } || return "$code"
}

# The tests would build the cluster's programs too, but pytest keeps to itself what they say meanwhile.
on_a_cluster() {
    local reason=""
    if [ -z "${SYMPHONY_TEST_KUBECONFIG:-}" ]; then
        reason=$("$python" -c 'from toolchain.kubernetes.cluster import impossible; print(impossible())') || return 1
        if [ -n "$reason" ]; then
            echo "left out, the tests that need a cluster: $reason"
            [ -z "${CI:-}" ]
            return
        fi
        "$python" -m toolchain.kubernetes build || return 1
    fi
    echo "the tests that need a cluster:"
    part "$workers" "kubernetes" "$@"
}

which="not thorough and not slow"
workers=4
case "${1:-}" in
--thorough)
    shift
    which="thorough and not slow"
    ;;
--slow)
    shift
    which=slow
    # They kill API servers and wait for minutes: one at a time.
    workers=1
    ;;
esac
case " $* " in
*" -m "*) side_by_side "$workers" "$@" ;;
*) part "$workers" "not kubernetes" "$@" && on_a_cluster "$@" ;;
esac
