#!/usr/bin/env bash
# Runs the benchmarks, with the programs they compare against in an environment of their own; `make bench` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stamp=.venv-bench/.locked
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$(sha256sum <requirements/bench.txt)" ]; then
    echo "  bench: installing what we compare with"
    rm -rf .venv-bench
    .venv/bin/python -m venv .venv-bench
    .venv-bench/bin/python -m pip --disable-pip-version-check -q install --require-hashes -r requirements/bench.txt
    sha256sum <requirements/bench.txt >"$stamp"
fi
# As an installer does for a user: with PYTHONDONTWRITEBYTECODE in the shell every command would compile anew.
.venv/bin/python -m compileall -q symphony caraml providers toolchain tests/benchmarks
exec .venv/bin/python -m tests.benchmarks "$@"
