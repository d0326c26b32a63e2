#!/bin/sh
# The newest Python host that Go modules have (v3.79) takes the project's virtualenv by a flag; newer engines send it
# another way. So this script, installed as pulumi-language-python, looks it up in the nearest Pulumi.yaml.
folder=$PWD virtualenv=
while [ -n "$folder" ] && [ ! -f "$folder/Pulumi.yaml" ]; do folder=${folder%/*}; done
[ ! -f "$folder/Pulumi.yaml" ] || virtualenv=$(
    found="[[:space:]{,]virtualenv:[[:space:]]*[\"']\{0,1\}\([^\"',}#[:space:]]*\)"
    sed -n "/$found/{s/.*$found.*/\1/p;q;}" "$folder/Pulumi.yaml"
)
exec "${0%/*}/pulumi-language-python-host" ${virtualenv:+-virtualenv "$virtualenv" -root "$folder"} "$@"
