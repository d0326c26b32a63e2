"""What the stand-in plugin does when the API server is away, an answer is lost, or a real plugin is there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
import yaml

from symphony.backends.kubernetes import plugin
from tests.backends.kubernetes.relay import silenced
from tests.toolchain.network_namespace import Elsewhere
from tests.toolchain.plugin_kubernetes.plugin_client import Plugin, manifest
from toolchain.kubernetes.fixtures import Access
from toolchain.plugin_kubernetes.install import install
from toolchain.plugins import provider, real

CONFIG = manifest("ConfigMap", {"name": "it", "namespace": "default"}, data={"k": "v"})


def reaching(server: str) -> str:
    """A kubeconfig for a server that may not be there."""
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
        }
    )


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.thorough
def test_a_server_that_is_silent_or_not_there_is_an_error_in_time(
    start: Callable[..., Plugin], black_hole: str
):
    """All at once, for each waits as long as it does for anybody."""
    with ThreadPoolExecutor() as threads:
        waiting = [
            threads.submit(_what_says_nothing_is_an_error, start, black_hole),
            threads.submit(_what_is_unreachable_is_not_gone, start),
            threads.submit(_unless_the_user_says_that_the_cluster_is_gone, start),
        ]
    for each in waiting:
        each.result()


def _what_says_nothing_is_an_error(start: Callable[..., Plugin], black_hole: str) -> None:
    plugin, began = start().configure(kubeconfig=reaching(black_hole)), time.monotonic()
    with pytest.raises(grpc.RpcError, match="does not answer"):
        plugin.create(CONFIG)
    assert time.monotonic() - began < 30


def _what_is_unreachable_is_not_gone(start: Callable[..., Plugin]) -> None:
    began = time.monotonic()
    plugin = start().configure(kubeconfig=reaching("http://127.0.0.1:1"))
    for operation in (
        lambda: plugin.read("default/it", "core/v1:ConfigMap", CONFIG, CONFIG),
        lambda: plugin.delete("default/it", CONFIG, CONFIG),
    ):
        with pytest.raises(grpc.RpcError, match="does not answer"):
            operation()
    assert time.monotonic() - began < 30, "the second object does not wait as long again"


def _unless_the_user_says_that_the_cluster_is_gone(start: Callable[..., Plugin]) -> None:
    plugin = start().configure(kubeconfig=reaching("http://127.0.0.1:1"), deleteUnreachable="true")
    plugin.delete("default/it", CONFIG, CONFIG)
    assert plugin.read("default/it", "core/v1:ConfigMap", CONFIG, CONFIG)[0] == ""


@pytest.mark.thorough
@pytest.mark.kubernetes
def test_a_server_that_falls_silent_while_a_delete_waits_is_an_error_in_time(
    cluster: Access, namespace: str, start: Callable[..., Plugin], kubectl: Any, tmp_path: Path
):
    held = {**CONFIG, "metadata": {"name": "it", "finalizers": ["example.com/held"]}}
    with silenced(cluster.kubeconfig, tmp_path) as (kubeconfig, silence):
        plugin = start().configure(kubeconfig=kubeconfig, namespace=namespace)
        id, inputs, outputs = plugin.make(held)
        ended: list[str] = []

        def delete() -> None:
            with pytest.raises(grpc.RpcError) as raised:
                plugin.delete(id, outputs, inputs)
            ended.append(str(raised.value.details()))

        waits = threading.Thread(target=delete)
        waits.start()
        time.sleep(2)  # it watches by now
        began = time.monotonic()
        silence.set()
        waits.join(100)
        assert time.monotonic() - began < 30
        assert "does not answer" in ended[0]
    kubectl("-n", namespace, "patch", "configmap", "it", "-p", '{"metadata": {"finalizers": null}}')


class Forgetful:
    """Passes connections on to a server; when told, drops the connection instead of the next answer."""

    def __init__(self, server: str) -> None:
        self._target = urlsplit(server)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.server = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self.drop_next = False
        self.dropped = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection((self._target.hostname, self._target.port))
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while content := source.recv(65536):
                if answers and self.drop_next:
                    self.drop_next, self.dropped = False, self.dropped + 1
                    break
                sink.sendall(content)
        except OSError:
            pass
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.mark.kubernetes
def test_a_lost_answer_makes_no_second_object_and_loses_none(
    cluster: Access, namespace: str, start: Callable[..., Plugin], live: Any
):
    kubeconfig = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    proxy = Forgetful(kubeconfig["clusters"][0]["cluster"]["server"])
    kubeconfig["clusters"][0]["cluster"]["server"] = proxy.server
    plugin = start().configure(kubeconfig=yaml.safe_dump(kubeconfig), namespace=namespace)
    body = plugin.check({**CONFIG, "metadata": {"name": "it"}})  # the connection is open now
    try:
        proxy.drop_next = True
        id, outputs = plugin.create(body)
        assert (proxy.dropped, outputs["metadata"]["uid"]) == (1, live("configmap", "it")["metadata"]["uid"])
        proxy.drop_next = True
        plugin.update(id, outputs, {**body, "data": {"k": "w"}})
        assert (proxy.dropped, live("configmap", "it")["data"]) == (2, {"k": "w"})
        proxy.drop_next = True
        plugin.delete(id, outputs, body)
        assert (proxy.dropped, live("configmap", "it")) == (3, {})
    finally:
        proxy.close()


@pytest.mark.thorough
@pytest.mark.kubernetes
@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])], ids=str
)
def test_an_api_server_that_is_killed_costs_nothing(elsewhere: Elsewhere, folder: Path, kills: int):
    script = ("-m", "tests.toolchain.plugin_kubernetes.kill_api_server", str(folder), str(kills))
    content = json.loads(elsewhere.run(sys.executable, *script, timeout=1000))
    assert content["equal"], content
    assert content["steps"] > 10 * kills
    assert content["objects"] > 10


@pytest.fixture
def pretender(tmp_path: Path) -> Path:
    """Stands for the plugin that Pulumi's installer puts there."""
    program = tmp_path / "real" / plugin.program(plugin.KUBERNETES)
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho the real one\n")
    program.chmod(0o755)
    return program


def installed(program: Path, version: str) -> Path:
    place = plugin.place(plugin.KUBERNETES, version)
    place.parent.mkdir(parents=True)
    return Path(shutil.copy(program, place))


def test_it_is_found_in_the_plugin_folder(start: Callable[..., Plugin]):
    assert install() == install()
    assert start(program=install()).first_line.isdecimal()


def test_a_real_plugin_in_the_folder_is_left_and_used(start: Callable[..., Plugin], pretender: Path):
    ours = install()
    theirs = installed(pretender, "4.30.0")
    assert install() == theirs
    assert start(program=ours).first_line == "the real one"


def test_a_real_plugin_of_the_same_version_is_not_overwritten(pretender: Path):
    ours = install()
    ours.unlink()
    ours.parent.rmdir()
    theirs = installed(pretender, ours.parent.name.rpartition("-v")[2])
    assert install() == theirs
    assert not theirs.is_symlink()


def test_the_newest_real_plugin_is_used(start: Callable[..., Plugin], pretender: Path):
    installed(pretender, "4.9.0")
    newest = installed(pretender, "4.30.0")
    assert real.find() == newest


def test_a_real_plugin_on_path_is_used(start: Callable[..., Plugin], pretender: Path):
    path = f"{pretender.parent}{os.pathsep}{os.environ['PATH']}"
    assert start(program=install(), environment={"PATH": path}).first_line == "the real one"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The program of another copy of this repository."""
    program = (
        tmp_path / "clone" / "toolchain" / "plugin_kubernetes" / "bin" / plugin.program(plugin.KUBERNETES)
    )
    program.parent.mkdir(parents=True)
    return Path(shutil.copy(real.OWN, program))


@pytest.mark.parametrize("version", ["4.9.0", ""], ids=["of another version", "of our version"])
def test_the_stand_in_of_another_clone_is_no_real_plugin(clone: Path, version: str):
    """Else the engine would find no plugin of the version that it asks for."""
    place = plugin.place(plugin.KUBERNETES, version or provider.version(plugin.KUBERNETES))
    place.parent.mkdir(parents=True)
    place.symlink_to(clone)
    assert real.find() is None
    ours = install()
    assert ours.parent.name == f"resource-kubernetes-v{provider.version(plugin.KUBERNETES)}"
    assert ours.resolve() == real.OWN.resolve()
    shutil.rmtree(clone.parent)
    assert real.find() is None
