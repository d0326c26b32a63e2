"""Images through a real Docker engine and registry, run by pods of a cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest

from symphony_docker import image_registry
from symphony_docker.engine import IDENTITY_LABEL, Engine
from tests.providers.symphony_docker import servers
from tests.providers.symphony_docker.conftest import DOCKERFILE, PROGRAM, Place, local_images
from tests.sandbox import SYMPHONY, wait_for
from toolchain.kubernetes import images

# One more image, which no pod runs, in a registry with a password.
LOCKED = """
import pulumi
pulumi.export("locked", Image("locked", repository="HOST/me/rl").reference)
"""
GROUP = """
from symphony import Image
with Experiment("e") as e:
    e.new_process_group("g", image=Image("rl")).new_process("a")
"""
SWEPT = """
import symphony
from symphony import Image
params = symphony.params(seed=1)
with Experiment(image=Image("rl")) as e:
    e.new_process("a", command=["echo", str(params.seed)])
"""
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(400)]


def test_up_builds_only_a_changed_image_and_pods_run_its_digest(place: Place) -> None:
    # An engine that has built this step before shows it only as cached.
    place.write("Dockerfile", DOCKERFILE.replace("made of", f"made of {uuid.uuid4()}"))
    first = place.up()
    assert "image rl: build and push" in first
    assert "(new)" in first
    assert re.search(r"image rl +working .* step 2/3: RUN echo made of", first), "the steps of the build"
    before = place.images()
    assert re.fullmatch(rf"\S+ {place.repository}@sha256:[0-9a-f]{{64}}", before["a"])
    # Nothing changed: nothing is built or pushed.
    again = place.up()
    assert "image rl" not in again
    assert place.images() == before
    # Deleted from the registry: it is pushed again, and nothing restarts.
    digest = before["a"].rpartition("@")[2]
    (name,) = local_images(place)
    image_registry.delete(place.repository, name.rpartition(":")[2], digest)
    assert "image rl  pushed" in place.up()
    assert image_registry.has(place.repository, digest)
    assert place.images() == before
    # Edited: the plan names the file, and only the pods of that image restart.
    place.write("app/main.txt", "two\n")
    planned = place.sandbox.symphony("plan", "dev", "--json").json
    assert [each["reasons"] for each in planned["images"]] == [["1 file: app/main.txt"]]
    assert "1 file: app/main.txt" in place.up()
    after = place.images()
    assert (after["b"], after["a"]) == (before["b"], after["a"])
    assert after["a"] != before["a"]
    wait_for(lambda: "two" in place.sandbox.symphony("logs", "dev", "a").out, 30, "the new code runs")
    (name,) = local_images(place)
    listed = place.sandbox.symphony("images", "--json").json
    assert [each["used_by"] for each in listed if f"{each['repository']}:{each['tag']}" == name] == [
        ["dev a"]
    ]
    # An image in use stays; `delete` removes the local images of the stack, and the registry keeps them.
    assert name not in place.sandbox.symphony("images", "clean", "-dr").out
    place.sandbox.symphony("delete", "dev", "-y")
    assert local_images(place) == []
    assert image_registry.has(place.repository, name.rpartition(":")[2])


@pytest.mark.thorough
def test_up_of_an_earlier_run_uses_the_image_that_run_pushed(place: Place) -> None:
    # A rebuilt image has another digest.
    place.write("Dockerfile", DOCKERFILE.replace("echo made of", "cat /proc/sys/kernel/random/uuid"))
    place.up()
    first = place.images()["a"].partition(" ")[2]
    place.write("app/main.txt", "two\n")
    place.up()
    assert place.images()["a"].partition(" ")[2] != first
    for name in local_images(place):
        Engine().remove(name, force=True)
    back = place.sandbox.symphony("up", "dev", "--run", "1", "-y", timeout=120).out
    assert f"image rl: {first}, not built again" in back
    assert "Different from run 1" not in back
    assert place.images()["a"].partition(" ")[2] == first
    assert local_images(place) == []
    again = place.sandbox.symphony("up", "dev", "--run", "1", "-y", timeout=120).out
    assert "image rl" not in again
    digest = first.partition("@")[2]
    (record,) = place.sandbox.home.glob("runs/*/*/dev/1/plan.json")
    (image,) = json.loads(record.read_text())["plan"]["images"]
    place.up()
    image_registry.delete(place.repository, image["inputs"]["tag"], digest)
    lost = place.sandbox.symphony("up", "dev", "--run", "1", "-y", timeout=120).out
    assert "a: image rl: no longer in the registry" in lost
    assert "image rl: build and push" in lost


@pytest.mark.thorough
def test_all_trials_of_a_sweep_use_the_image_of_the_first_trial(place: Place) -> None:
    place.sandbox.write(SWEPT)
    name = f"s{place.namespace[-6:]}"
    words = ["sweep", "dev", "seed=1,2", "--at-most", "1", "--name", name, "-y"]
    place.sandbox.symphony(*words, timeout=120)
    try:
        assert "2/2 done" in place.sandbox.symphony("wait", name, timeout=300).out
        assert [row["backend"] for row in place.sandbox.symphony("ls", "--json").json] == ["kubernetes"]
    finally:
        place.sandbox.symphony("delete", name, "-y", timeout=120)
    first, second = (
        json.loads((folder / "1" / "run.json").read_text())["images"]
        for folder in sorted(place.sandbox.home.glob(f"runs/*/*/{name}.[12]"))
    )
    assert first == second
    (record,) = place.sandbox.home.glob(f"runs/*/*/{name}.2/1/plan.json")
    (image,) = json.loads(record.read_text())["plan"]["images"]
    assert image["inputs"]["pinned"] == first["rl"]


@pytest.mark.thorough
def test_delete_keeps_an_image_that_has_another_tag(place: Place) -> None:
    """The image is that of a process group, whose containers run it."""
    place.sandbox.write(GROUP)
    place.up()
    assert [each.split(" ")[1].partition("@")[0] for each in place.images().values()] == [place.repository]
    (name,) = local_images(place)
    Engine().tag(name, f"{place.repository}-mine", "1")
    place.sandbox.symphony("delete", "dev", "-y")
    kept = Engine().find(f"{place.repository}-mine:1")
    assert kept is not None
    # Other tests may have built the same content, which is one image then.
    ours = [each for each in kept.references if each.startswith(place.repository)]
    assert ours == [f"{place.repository}-mine:1"]
    Engine().remove(f"{place.repository}-mine:1")


@pytest.mark.thorough
def test_a_failed_build_is_one_line_and_the_end_of_the_output(place: Place) -> None:
    place.up()
    running = place.images()
    place.sandbox.write(PROGRAM.replace("1000", "1001"))
    step = "RUN echo one; echo two; echo three; exit 3"
    place.write("Dockerfile", f"FROM {images.BUSYBOX_IMAGE}\n{step}\n")
    failed = place.up(code=1).partition("symphony: ")[2]
    assert failed == f"{step} failed with exit code 3 (Dockerfile).\n    | two\n    | three\n"
    debugged = place.sandbox.start([str(SYMPHONY), "up", "dev", "-y", "--debug"])
    assert "    | one\n    | two\n    | three\n" in debugged.communicate(timeout=60)[1]
    place.write("Dockerfile", f"FROM {images.BUSYBOX_IMAGE}\nRUNN x\n")
    assert "unknown instruction: RUNN (Dockerfile:2)" in place.up(code=1)
    nowhere = f"{place.cluster.registry}/nowhere:1"
    place.write("Dockerfile", f"FROM {nowhere}\n")
    assert f"the base image {nowhere} cannot be pulled" in place.up(code=1)
    place.write("Dockerfile", f"{DOCKERFILE}# Another one.\n")
    assert "no Docker engine answers" in place.up(code=1, env={"DOCKER_HOST": "unix:///nowhere.sock"})
    place.sandbox.config("dev", registry="localhost:1/x")
    assert "the registry localhost:1 does not answer" in place.up(code=1)
    # Running pods keep running, with any image.
    assert place.images() == running


def test_plan_reports_mistakes_in_image_declarations(place: Place) -> None:
    place.sandbox.write(
        PROGRAM.replace('"rl")', '"rl", platform="linux/arm64", build_args={"API_KEY": "x"})')
    )
    place.write("app/credentials.json", "{}")
    message = place.up(code=2)
    assert "image rl is built for arm64, but the nodes are amd64" in message
    assert "image rl has the build argument API_KEY, which every user of the image could read" in message
    assert "app/credentials.json is named like a credential and would be in the image" in message
    assert "Nothing was started." in message


@pytest.mark.thorough
def test_ctrl_c_during_a_build_stops_it_and_the_next_up_builds_again(place: Place) -> None:
    place.write("Dockerfile", DOCKERFILE.replace("RUN echo", "RUN sleep 60; echo"))
    running = place.sandbox.start([str(SYMPHONY), "up", "dev", "-y"])

    def steps() -> list[int]:
        every = psutil.process_iter(["cmdline"])
        return [each.pid for each in every if "sleep 60; echo" in " ".join(each.info["cmdline"] or ())]

    wait_for(steps, 60, "the step runs", pause=0.2)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130
    wait_for(lambda: not steps(), 30, "the step has ended", pause=0.2)
    place.write("Dockerfile", DOCKERFILE)
    assert "image rl  pushed" in place.up()


@pytest.mark.thorough
def test_concurrent_builds_of_the_same_content_build_once(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stacks with the same content, as in a sweep, wait for the first build and use its image."""
    from symphony_docker import context, progress, provider

    place.write("Dockerfile", DOCKERFILE.replace("RUN echo", f"RUN echo {uuid.uuid4()}; sleep 3; echo"))
    parts = context.parts(context.read(context.Source(str(place.sandbox.folder))), {})
    inputs = {
        "name": "rl",
        "repository": place.repository,
        "identity": context.identity(parts),
        "context": str(place.sandbox.folder),
        "dockerfile": "Dockerfile",
    }
    monkeypatch.setenv(progress.VARIABLE, str(tmp_path / "progress"))
    results: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda who=who, tag=tag: results.append(
                provider.ImageProvider().create({**inputs, "tag": tag, "owner": who})
            )
        )
        for who, tag in (("a", "one"), ("b", "one"), ("c", "two"))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({each.outs["image"] for each in results}) == 1
    assert (tmp_path / "progress").read_text().count("step 2/") == 1

    def labels(tag: str) -> str | None:
        image = Engine().find(f"{place.repository}:{tag}")
        return image and image.labels[IDENTITY_LABEL]

    assert labels("one") == labels("two") == inputs["identity"]
    for who, tag, left in (("a", "one", True), ("b", "one", False), ("c", "two", False)):
        provider.ImageProvider().delete("", results[0].outs | {"tag": tag, "owner": who})
        assert (labels(tag) is not None) is left


def test_no_secret_leaks_into_image_state_or_output(place: Place, tmp_path: Path) -> None:
    """Secrets are in the context, in Docker's password file and in its credential helper."""
    canaries = {".env": "canary-1", ".git/config": "canary-2", "id_rsa": "canary-3", "x.pem": "canary-4"}
    for name, text in canaries.items():
        place.write(name, text)
    docker = place.sandbox.home / "docker"
    docker.mkdir(parents=True)
    asked = servers.credential_helper(tmp_path / "bin")
    place.write("Dockerfile", f"FROM {images.BUSYBOX_IMAGE}\nCOPY . /all\nRUN ls -aR /all; sleep 2\n")
    program = PROGRAM.replace('new_process("a")', 'new_process("a", command=["sleep", "1000"])')
    seen: list[str] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with_secret = b""
                try:
                    with_secret = file.read_bytes()
                except OSError:
                    continue
                if b"canary-" in with_secret or b"bWU6Y2Fu" in with_secret:
                    seen.append(str(with_secret))

    looker = threading.Thread(target=look)
    looker.start()
    environment = {"DOCKER_CONFIG": str(docker), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    with servers.registry(tmp_path / "registry", login=True) as host:
        auths = {place.cluster.registry: {"auth": "bWU6Y2FuYXJ5LTU="}}
        login = {"auths": auths, "credHelpers": {host: "canary"}}
        (docker / "config.json").write_text(json.dumps(login))
        place.sandbox.write(f"{program}{LOCKED.replace('HOST', host)}")
        try:
            ran = place.sandbox.symphony("up", "dev", "-y", "--debug", timeout=120, env=environment)
        finally:
            ended.set()
            looker.join()
        assert set(asked.read_text().split()) == {"get"}

        def doctor(**more: str) -> dict[str, Any]:
            rows = place.sandbox.symphony("doctor", "--json", env={**environment, **more}, code=None).json
            return {each["name"].removesuffix(" (optional)"): each for each in rows}

        known = doctor()
        assert known[f"registry {host}"]["place"] == "logged in"
        assert known["registry credentials"]["there"]
        unknown = doctor(DOCKER_CONFIG=str(tmp_path))["registry credentials"]
        assert (unknown["there"], unknown["get"]) == (False, f"docker login {host}")
    output = ran.out + ran.err
    assert seen == []
    (name,) = local_images(place)
    history = json.dumps(Engine().api.history(name))
    every = [each for each in place.sandbox.home.rglob("*") if each.is_file() and not each.is_symlink()]
    files = [each for each in every if docker not in each.parents]
    state = "".join(each.read_text(errors="replace") for each in files)
    # The last two: both passwords as in Docker's config file.
    for text in (*canaries.values(), "canary-5", servers.PASSWORD, "bWU6Y2FuYXJ5LTU=", "bWU6Y2FuYXJ5LTY="):
        assert text not in output + history + state
    argv = [place.cluster.kubectl, f"--kubeconfig={place.cluster.kubeconfig}", "-n", place.namespace]
    listing = subprocess.run(
        [*argv, "exec", "a", "--", "ls", "-aR", "/all"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "main.txt" in listing
    assert not [each for each in ("canary", ".env", ".git", "id_rsa", "x.pem") if each in listing]
    assert os.environ.get("DOCKER_CONFIG") is None
