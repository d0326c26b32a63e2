#!/usr/bin/env bash
# Runs the tests that need this machine only, for `make test`; or with --cluster, as the first word, those that need
# a cluster, for `make test-kubernetes`. Other words are handed on to pytest.
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
    side_by_side 4 -m "kubernetes and not slow" -rs "$@"
}

if [ "${1:-}" = --cluster ]; then
    shift
    on_a_cluster "$@"
else
    side_by_side 4 "$@" || exit
    echo "the tests that need a cluster: make test-kubernetes"
fi
