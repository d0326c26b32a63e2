"""A component with two things; the test replaces them by the Python code in $TINY."""

import os

import pulumi
from tiny_provider import Thing

if os.environ.get("TINY"):
    exec(compile(os.environ["TINY"], "tiny-of-the-test", "exec"))
else:
    box = pulumi.ComponentResource("tiny:index:Box", "box", None)
    for name in ("one", "two"):
        Thing(name, value=pulumi.Config().get("value") or "1", opts=pulumi.ResourceOptions(parent=box))
    box.register_outputs({"size": 2})
    pulumi.export("answer", 42)
