"""`symphony images` lists images and their users; `clean` asks, and keeps used images and those of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symphony_docker.engine import Engine
from tests.providers.symphony_docker.conftest import Place, local_images
from tests.sandbox import SYMPHONY, wait_for
from tests.terminal import terminal

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(400)]
PROGRAM = """
import pulumi
from symphony import Image
image = Image("rl")
with Experiment("e") as e:
    if pulumi.get_stack() == "dev":
        e.new_process("b", image=image)
        e.new_process("a", image=image)
    else:
        e.new_process("a", command=["sleep", "3600"])
        pulumi.export("image", image.reference)
"""


@pytest.fixture
def local_image(place: Place) -> Iterator[str]:
    """Return an image of the tmux stack `local` that a container uses, too; `local` and `dev` are up."""
    place.sandbox.write(PROGRAM)
    place.up()
    place.write("app/main.txt", "two\n")
    place.sandbox.config("local", registry=f"{place.repository}-local")
    place.sandbox.symphony("up", "local", "-y", timeout=120)
    (name,) = local_images(place, "-local")
    container = Engine().api.create_container(name, command=["sleep", "1"])["Id"]
    try:
        yield name
    finally:
        if any(each["Id"] == container for each in Engine().api.containers(all=True)):
            Engine().api.remove_container(container, force=True)
        place.sandbox.symphony("delete", "local", "-y", code=None, timeout=120)


def image_users(place: Place, **environment: str) -> dict[str, list[str]]:
    listed = place.sandbox.symphony("images", "--json", env=environment).json
    return {
        f"{each['repository']}:{each['tag']}": each["used_by"]
        for each in listed
        if each["repository"].startswith(place.repository)
    }


def test_images_clean_asks_and_keeps_images_in_use(place: Place, local_image: str, tmp_path: Path) -> None:
    (dev,) = local_images(place)
    assert image_users(place) == {dev: ["dev a", "dev b"], local_image: ["local"]}
    assert image_users(place, PULUMI_BACKEND_URL=f"file://{tmp_path}") == {
        dev: ["dev (another Pulumi backend)"],
        local_image: ["local (another Pulumi backend)"],
    }
    place.sandbox.symphony("delete", "local", "-y")
    other = f"{place.repository}-other"
    Engine().tag(dev, other, "1")
    pattern = f"{place.repository}*"
    for answer, message in (("n", "Nothing was changed."), ("y", "Removed 0 images.")):
        with terminal(place.sandbox, [str(SYMPHONY), "images", "clean", pattern], columns=160) as shown:
            screen = shown.shows("Remove 1 image? [y/N]")
            # It has the label of symphony, but this user has no record of it: another user may have built it.
            assert other not in screen
            assert dev not in screen
            assert "1 image to remove; 1 image in use." in screen
            shown.type(answer, "Enter")
            shown.shows(message)
            assert shown.ends() == 1
            assert (f"{local_image} was not removed: a container uses this image" in shown.history()) is (
                answer == "y"
            )
    assert image_users(place) == {dev: ["dev a", "dev b"], local_image: []}
    assert "no image matches" in place.sandbox.symphony("images", "clean", "nothing*", code=2).err
    assert "Add -y" in place.sandbox.symphony("images", "clean", pattern, code=2).err
    (container,) = Engine().api.containers(all=True, filters={"ancestor": local_image})
    Engine().api.remove_container(container["Id"], force=True)
    assert "Removed 1 image." in place.sandbox.symphony("images", "clean", pattern, "-y").out
    assert image_users(place) == {dev: ["dev a", "dev b"]}


def test_restart_uses_the_currently_declared_image(place: Place) -> None:
    place.sandbox.write(PROGRAM)
    place.up()
    before = place.images()
    place.write("app/main.txt", "two\n")
    place.sandbox.symphony("restart", "dev", "a", timeout=120)
    wait_for(lambda: "two" in place.sandbox.symphony("logs", "dev", "a").out, 30, "the new code runs")
    after = place.images()
    assert after["b"] == before["b"]
    planned = place.sandbox.symphony("plan", "dev", "--json").json
    assert {each["path"]: each["kind"] for each in planned["changes"]} == {"a": "keep", "b": "restart"}
    assert planned["images"] == []
    place.up()
    assert place.images()["a"] == after["a"]
