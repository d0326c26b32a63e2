"""The name of the image provider in the state of users."""

from __future__ import annotations

import base64
import pickle

from symphony.operations.plan import IMAGE
from symphony_docker import provider


def test_the_serialized_image_provider_never_changes() -> None:
    """This text is in the state of every user: code that cannot read it cannot delete resources."""
    golden = "gASVMQAAAAAAAACMGHN5bXBob255X2RvY2tlci5wcm92aWRlcpSMDUltYWdlUHJvdmlkZXKUk5QpgZQu"
    assert golden == provider.PROVIDER
    assert type(pickle.loads(base64.b64decode(provider.PROVIDER))) is provider.ImageProvider
    assert provider.ImageProvider.serialize_as_secret_always is False
    assert provider.TYPE == IMAGE == "pulumi-python:dynamic/symphony_docker:Image"
