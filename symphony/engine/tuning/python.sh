#!/bin/sh
# Stands in front of the interpreter that the engine starts; environment.py names both to it.
# On each run the engine has pip list all packages: pip_list.py beside this answers in a tenth of the time.
python=${SYMPHONY_PYTHON_CMD:-python3}
if [ "$*" = "-m pip list -v --format json" ]; then
    exec "$python" "${0%/*}/pip_list.py"
fi
exec "$python" "$@"
