#!/bin/sh
# Stands in front of the interpreter that the engine starts; environment.py names both to it.
# On each run the engine has pip list all packages: packages.py beside this answers in a tenth of the time.
if [ "$*" = "-m pip list -v --format json" ]; then
    exec "$SYMPHONY_PYTHON_CMD" "${0%/*}/packages.py"
fi
exec "$SYMPHONY_PYTHON_CMD" "$@"
