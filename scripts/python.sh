#!/usr/bin/env bash
# Makes .venv with the locked packages and this checkout in it; the Makefile calls it, a second call does nothing.
# With the word "examples" also what examples/surreal learns with, 600 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=${SYMPHONY_VENV:-.venv}

main() {
    make_python
    [ "${1:-}" = examples ] && install_locked requirements/examples.txt examples
    return 0
}

make_python() {
    local locked ours
    locked=$(sha256sum <requirements/dev.txt)
    # The part of pyproject.toml that decides what is installed, not how it is checked.
    ours=$(sed '/^\[tool\.ruff\]/,$d' pyproject.toml | sha256sum)
    if [ "$(stamp locked)" = "$locked" ] && [ "$(stamp ours)" = "$ours" ]; then
        return
    fi
    make_venv
    install_locked requirements/dev.txt locked
    pip_says "this checkout" install --no-deps --no-build-isolation -e .
    echo "$ours" >"$venv/.ours"
}

# A file of locked packages, unless the stamp of this name says that they are there.
install_locked() {
    local file=$1 name=$2 wanted
    wanted=$(sha256sum <"$file")
    [ "$(stamp "$name")" != "$wanted" ] || return 0
    packages=$(grep -c '^[A-Za-z0-9].*==' "$file")
    pip_says "$packages locked packages" install --require-hashes -r "$file"
    echo "$wanted" >"$venv/.$name"
}

stamp() { cat "$venv/.$1" 2>/dev/null || true; }

make_venv() {
    local python
    # An interrupted set-up may have left half a folder: what does not run pip is made again.
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    echo "  python: making $venv with $($python --version)"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
            fail "$python cannot make a virtual environment" "sudo apt-get install python3-venv"
        echo "  python: installing python3-venv with apt-get"
        { apt-get install -y python3-venv || { apt-get update && apt-get install -y python3-venv; }; } >/dev/null
        rm -rf "$venv"
        "$python" -m venv "$venv"
    fi
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11.4 or newer is not on PATH" "make setup PYTHON=/path/to/python3"
}

# pip's own output is long; what counts is how many of the packages it has come to.
pip_says() {
    local what=$1 began=$SECONDS log count=0 line
    shift
    log=$(mktemp)
    { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@" 2>&1 || echo "pip failed"; } |
        while IFS= read -r line; do
            echo "$line" >>"$log"
            case $line in
            Collecting* | "Requirement already"*)
                count=$((count + 1))
                if [ -t 1 ]; then
                    printf '\r  python: packages  %s/%s  %s s ' "$count" "$packages" $((SECONDS - began))
                elif [ $((count % 25)) = 1 ] && [ "$count" -gt 1 ]; then
                    echo "  python: packages  $count/$packages  $((SECONDS - began)) s"
                fi
                ;;
            esac
        done
    [ -t 1 ] && printf '\r\033[2K'
    line=$(tail -n 1 "$log")
    if [ "$line" = "pip failed" ]; then
        tail -n 15 "$log" >&2
        rm -f "$log"
        fail "pip could not install the packages" "look at its last lines above, then run it again"
    fi
    rm -f "$log"
    echo "  python: $what  $((SECONDS - began)) s"
}

fail() {
    echo "symphony: $1. $2." >&2
    exit 1
}

main "$@"
