#!/usr/bin/env bash
# Runs the tests that need this machine only, or, with --cluster as the first word, those that need a cluster;
# `make test` and `make test-kubernetes` call it. The other words are handed on to pytest.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
pytest=("$python" -m pytest)

# Many tests start engines and wait for processes: beside others on two cores one may run out of its time. What failed
# runs once more alone; what only passes alone is named, so that it can be mended; what fails twice fails the run.
on_this_machine() {
    "${pytest[@]}" -n 3 --dist loadfile "$@"
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

# The tests themselves would build and start the cluster too, but pytest keeps to itself what they say meanwhile.
on_a_cluster() {
    local reason=""
    if [ -z "${SYMPHONY_TEST_KUBECONFIG:-}" ]; then
        reason=$("$python" -c 'from toolchain.kubernetes.cluster import impossible; print(impossible())')
        if [ -n "$reason" ]; then
            echo "left out, the tests that need a cluster: $reason"
            [ -z "${CI:-}" ]
            return
        fi
        "$python" -m toolchain.kubernetes build || return 1
    fi
    echo "the tests that need a cluster:"
    "${pytest[@]}" -p no:cacheprovider -m "kubernetes and not slow" -rs "$@"
    local code=$?
    [ "$code" = 0 ] || { [ "$code" = 5 ] && [ $# -gt 0 ]; }
}

if [ "${1:-}" = --cluster ]; then
    shift
    on_a_cluster "$@"
else
    on_this_machine "$@"
fi
