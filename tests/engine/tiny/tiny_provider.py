"""A dynamic provider that does nothing; on request slowly, or with an error."""

import base64
import pickle
import time
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult


class Tiny(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        if props.get("mark"):
            Path(props["mark"]).write_text("created")
        time.sleep(float(props["sleep"]))
        if props["fail"] == "ours":
            from symphony.errors import SymphonyError

            raise SymphonyError("port 7000 is taken by alice", remedy="Choose another port")
        if props["fail"]:
            raise RuntimeError(props["fail"])
        return CreateResult("id-of-a-thing", props)

    def diff(self, id, old, new):
        return DiffResult(changes=any(old.get(key) != new[key] for key in ("value", "sleep", "fail")))

    def update(self, id, old, new):
        return UpdateResult(new)


REFERENCE = base64.b64encode(pickle.dumps(Tiny())).decode()


class Thing(pulumi.CustomResource):
    def __init__(self, name, *, value="1", sleep=0, fail="", mark="", opts=None):
        props = {"value": value, "sleep": sleep, "fail": fail, "mark": mark, "__provider": REFERENCE}
        super().__init__("pulumi-python:dynamic/tiny_provider:Thing", name, props, opts)
