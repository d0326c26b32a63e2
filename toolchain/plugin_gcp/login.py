"""Stands in for gke-gcloud-auth-plugin: prints a credential of the local cluster for kubectl."""

import json
import sys

from toolchain.plugin_gcp import local_cluster


def main() -> None:
    client = local_cluster.client()
    if client is None:
        sys.exit("no local cluster is up: `python -m toolchain.kubernetes up`")
    status = {"token": local_cluster.token(client)}
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": status,
    }
    sys.stdout.write(json.dumps(answer))


main()
