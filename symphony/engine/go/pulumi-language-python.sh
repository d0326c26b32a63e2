#!/bin/sh
# The Python host that Go modules still have takes the project's virtualenv by a flag; the engine sends it another way.
# So this stands in front of the host: it finds the nearest Pulumi.yaml and says the flag. gobuild.py installs it.
# Where symphony is about, the host starts that virtualenv's Python through python.sh, which is quicker than pip.
folder=$PWD virtualenv=
while [ -n "$folder" ] && [ ! -f "$folder/Pulumi.yaml" ]; do folder=${folder%/*}; done
[ ! -f "$folder/Pulumi.yaml" ] || virtualenv=$(
    found="[[:space:]{,]virtualenv:[[:space:]]*[\"']\{0,1\}\([^\"',}#[:space:]]*\)"
    sed -n "/$found/{s/.*$found.*/\1/p;q;}" "$folder/Pulumi.yaml"
)
case $virtualenv in
'' | /*) bin=$virtualenv/bin ;;
*) bin=$folder/$virtualenv/bin ;;
esac
if [ -n "$virtualenv" ] && [ -f "$bin/python" ] && [ -x "$SYMPHONY_PYTHON" ]; then
    export PATH="$bin:$PATH" PULUMI_PYTHON_CMD="$SYMPHONY_PYTHON" SYMPHONY_PYTHON_CMD="$bin/python"
    unset PYTHONHOME virtualenv
fi
exec "${0%/*}/pulumi-language-python-host" ${virtualenv:+-virtualenv "$virtualenv" -root "$folder"} "$@"
