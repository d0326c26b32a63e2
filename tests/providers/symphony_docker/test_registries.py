"""Registries that need a login, lose an image, break off a push, or refuse deletion."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from symphony.errors import SymphonyError
from symphony_docker import image_registry
from symphony_docker.engine import Engine
from symphony_docker.provider import MAY_ASK_REGISTRY, MISSING, REASON, ImageProvider
from tests.providers.symphony_docker import servers
from tests.sandbox import wait_for
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough]


@pytest.fixture
def folder(cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The context of an image, with an engine to build it."""
    monkeypatch.setenv("DOCKER_HOST", cluster.docker_host or Engine().address)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = tmp_path / "context"
    result.mkdir()
    (result / "Dockerfile").write_text("FROM scratch\nCOPY a /a\nCOPY b /b\n")
    for name in "ab":
        (result / name).write_bytes(os.urandom(400_000))
    yield result
    for each in Engine().list_images(own=True):
        for name in each.references:
            if name.startswith("127.0.0.1:"):
                Engine().remove(name, force=True)


def error_line(make: Any) -> str:
    with pytest.raises(SymphonyError) as raised:
        make()
    assert "\n" not in raised.value.line
    return raised.value.line


def build_and_push(folder: Path, repository: str, tag: str = "one", **more: Any) -> dict[str, Any]:
    """The outputs of an image that was built and pushed."""
    return ImageProvider().create(servers.inputs(folder, repository, tag, **more)).outs or {}


def updated(olds: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
    return ImageProvider().update("", olds, news).outs or {}


def configure(folder: Path, **settings: Any) -> None:
    file = Path(os.environ["DOCKER_CONFIG"], "config.json")
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(settings))


def test_push_to_a_registry_with_login_uses_the_credentials_of_docker(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = servers.credential_helper(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with servers.registry(tmp_path / "registry", login=True) as host, servers.Gate(host) as gate:
        repository = f"{gate.host}/team/rl"

        def push() -> Any:
            return build_and_push(folder, repository)

        unknown = f"the registry {gate.host} requires a login ({repository}). Run `docker login {gate.host}`."
        assert error_line(push) == unknown
        assert error_line(lambda: image_registry.has(repository, "one")) == unknown
        assert image_registry.check(gate.host) == image_registry.NEEDS_LOGIN
        configure(folder, auths={gate.host: {"auth": "bWU6d3Jvbmc="}})
        assert error_line(push) == unknown
        # A credential helper for all registries, then one for this registry alone.
        configure(folder, credsStore="canary")
        gate.refuses["POST /v2/team/rl/blobs"] = 403
        refused = error_line(push)
        assert refused.startswith(f"you have no permission to write to {repository}.")
        del gate.refuses["POST /v2/team/rl/blobs"]
        # Nothing is half done: the registry has no tag.
        assert not image_registry.has(repository, "one")
        configure(folder, credHelpers={gate.host: "canary"})
        digest = push()["digest"]
        assert image_registry.has(repository, digest)
        assert image_registry.check(gate.host) == "logged in"
        assert set(log.read_text().split()) == {"get"}
        configure(folder, credHelpers={gate.host: "nowhere"})
        with pytest.warns(UserWarning, match="not installed"):
            assert "cannot be read: docker-credential-nowhere not installed" in error_line(push)


def test_an_unchanged_image_costs_one_request_and_a_lost_one_is_pushed_again(
    folder: Path, tmp_path: Path
) -> None:
    with servers.registry(tmp_path / "registry") as host, servers.Gate(host) as gate:
        given = servers.inputs(folder, f"{gate.host}/rl")
        provider = ImageProvider()
        olds = build_and_push(folder, f"{gate.host}/rl")
        gate.requests.clear()
        assert REASON not in provider.check(olds, given).inputs
        assert gate.requests == []
        assert REASON not in provider.check(olds, {**given, MAY_ASK_REGISTRY: True}).inputs
        assert gate.requests == ["HEAD /v2/rl/manifests/one"]
        image_registry.delete(f"{gate.host}/rl", "one", olds["digest"])
        gone = provider.check(olds, {**given, MAY_ASK_REGISTRY: True}).inputs
        assert gone[REASON] == MISSING
        assert updated(olds, gone)["image"] == olds["image"]
        assert image_registry.has(f"{gate.host}/rl", "one")


def test_an_interrupted_push_resumes_without_sending_layers_again(folder: Path, tmp_path: Path) -> None:
    with servers.registry(tmp_path / "registry") as host, servers.Gate(host) as gate:
        # Both layers are sent, then the manifest is refused.
        gate.stuck = ("PUT /v2/rl/manifests",)
        errors: list[str] = []
        pushing = threading.Thread(
            target=lambda: errors.append(error_line(lambda: build_and_push(folder, f"{gate.host}/rl")))
        )
        pushing.start()
        wait_for(lambda: gate.asked("PUT")[-1:] == ["/v2/rl/manifests/one"], 60, "both layers are there")
        gate.refuses["PUT /v2/rl/manifests"] = 500
        gate.stuck = ()
        pushing.join()
        assert len(errors) == 1
        assert errors[0].startswith("the push failed: ")
        assert not image_registry.has(f"{gate.host}/rl", "one")
        gate.refuses.clear()
        gate.requests.clear()
        assert build_and_push(folder, f"{gate.host}/rl")["digest"]
        assert gate.asked("POST") == []
        assert gate.asked("PUT") == ["/v2/rl/manifests/one"]


def test_push_retries_a_layer_that_breaks_off(folder: Path, tmp_path: Path) -> None:
    with servers.registry(tmp_path / "registry") as host, servers.Gate(host) as gate:
        gate.cuts = 2
        digest = build_and_push(folder, f"{gate.host}/rl")["digest"]
        assert gate.cuts == 0
        assert image_registry.has(f"{gate.host}/rl", digest)


def test_images_are_deleted_in_the_registry_only_if_requested(folder: Path, tmp_path: Path) -> None:
    provider = ImageProvider()
    with servers.registry(tmp_path / "registry") as host:
        repository = f"{host}/rl"
        one = build_and_push(folder, repository, "one", retain_on_delete=False)
        two = build_and_push(folder, repository, "two")
        assert one["digest"] == two["digest"]
        # In the registry they are one image, which another stack also uses.
        provider.delete("", one)
        assert image_registry.has(repository, "one")
        (folder / "b").write_bytes(b"another")
        alone = build_and_push(folder, repository, "alone")
        # Changing whether `delete` also deletes in the registry builds nothing.
        given = servers.inputs(folder, repository, "alone", retain_on_delete=False)
        assert provider.diff("", alone, given).changes
        changed = updated(alone, given)
        assert changed["built"] == alone["built"]
        provider.delete("", changed)
        assert not image_registry.has(repository, "alone")
        assert image_registry.has(repository, "two")
    with servers.registry(tmp_path / "keeps", deletes=False) as host:
        made = build_and_push(folder, f"{host}/rl", retain_on_delete=False)
        assert error_line(lambda: provider.delete("", made)).startswith(
            f"the registry {host} cannot delete the image: 405"
        )
