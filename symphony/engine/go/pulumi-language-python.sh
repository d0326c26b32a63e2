#!/bin/sh
# The Python host that Go modules still have takes the project's virtualenv by a flag; the engine sends it another way.
# So this stands in front of the host: it finds the nearest Pulumi.yaml and says the flag. gobuild.py installs it.
folder=$PWD
while [ "$folder" != / ] && [ ! -f "$folder/Pulumi.yaml" ]; do folder=$(dirname "$folder"); done
[ ! -f "$folder/Pulumi.yaml" ] || virtualenv=$(
    sed -n "s/.*virtualenv:[[:space:]]*[\"']\{0,1\}\([^\"',}#[:space:]]*\).*/\1/p" "$folder/Pulumi.yaml" | head -n 1
)
exec "$(dirname "$0")/pulumi-language-python-host" ${virtualenv:+-virtualenv "$virtualenv" -root "$folder"} "$@"
