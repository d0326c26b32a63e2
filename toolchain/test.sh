#!/usr/bin/env bash
# Runs the tests side by side, and what failed once more alone; `make test` calls it with pytest's own words.
# Many tests start engines and wait for processes: beside others on two cores one may run out of its time. A test
# that only passes alone is named at the end, so that it can be mended; one that fails twice fails the run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pytest=(.venv/bin/python -m pytest)
"${pytest[@]}" -n 3 --dist loadfile "$@"
code=$?
[ "$code" = 1 ] || exit "$code"

failed=$(.venv/bin/python -c '
import json
print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")')
echo
echo "once more, alone: $(echo "$failed" | wc -l) tests that failed"
"${pytest[@]}" --last-failed --last-failed-no-failures none "$@" || exit 1
echo "passed only alone, mend these:"
echo "$failed"
