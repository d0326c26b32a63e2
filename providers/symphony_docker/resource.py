"""The Pulumi resource Image; the provider builds and pushes it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from typing import Any

import pulumi

from symphony_docker.provider import ImageProvider

TYPE = "pulumi-python:dynamic/symphony_docker:Image"
# Protocol 4, by reference, no attributes: these bytes lie in the state of every user and must never change.
PROVIDER = base64.b64encode(pickle.dumps(ImageProvider(), protocol=4)).decode()


class ImageResource(pulumi.CustomResource):
    """One image: built by a Docker engine and pushed to its repository.

    image: an output, `repository@sha256:...`, which is what pods run.
    """

    image: pulumi.Output[str]

    def __init__(
        self, resource_name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(TYPE, resource_name, {**inputs, "image": None, "__provider": PROVIDER}, opts)
