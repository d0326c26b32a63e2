"""GPU claims on this machine: assignment, the queue of waiting processes, release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.tmux import usage
from symphony.errors import SymphonyError
from symphony_tmux import gpus
from tests.sandbox import Sandbox, wait_for

FAKE = Path(__file__).parents[2] / "fake_nvml"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def fake_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fake NVML file that describes three GPUs."""
    file = tmp_path / "nvml.json"
    file.write_text(json.dumps({"gpus": [{"uuid": f"GPU-{number}"} for number in range(3)]}))
    monkeypatch.setenv("FAKE_NVML", str(file))
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setenv(gpus.FOLDER_VARIABLE, str(tmp_path / "gpus"))
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    gpus._nvml.cache_clear()
    yield file
    sys.modules.pop("pynvml", None)
    gpus._nvml.cache_clear()


@pytest.fixture
def start(fake_gpus: Path, tmp_path: Path) -> Iterator[Start]:
    """Start `sleep` with a claim, and write its environment to a file."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(who: str, count: int) -> subprocess.Popen[bytes]:
        folder = tmp_path / who
        folder.mkdir()
        words = ["sh", "-c", f"env >{folder}/env; exec sleep 60"]
        command = [sys.executable, "-P", "-m", "symphony_tmux.gpus", str(count), who, str(folder), "/bin/sh"]
        started.append(subprocess.Popen([*command, *words[1:]], stderr=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def gpus_by_process() -> dict[str, tuple[str, ...]]:
    return {claim.who: claim.gpus for claim in gpus.claims()}


def test_processes_get_distinct_gpus_and_ended_processes_release_theirs(start: Start, tmp_path: Path) -> None:
    first = start("first", 2)
    wait_for(lambda: len(gpus_by_process().get("first", ())) == 2, 20, "two are held")
    start("second", 2)
    note = tmp_path / "second" / gpus.NOTE
    assert "held by first" in wait_for(lambda: note.exists() and note.read_text(), 20, "it says why")
    assert gpus_by_process()["second"] == ()
    first.kill()
    first.wait()
    wait_for(lambda: len(gpus_by_process().get("second", ())) == 2, 20, "the second has them")
    wait_for(lambda: not note.exists(), 20, "it says no longer that it waits")
    assert "first" not in gpus_by_process()
    wanted, env = f"{gpus.TAKEN}={','.join(gpus_by_process()['second'])}", tmp_path / "second" / "env"
    wait_for(lambda: env.exists() and wanted in env.read_text(), 20, "it runs with them")


def test_gpus_are_assigned_in_the_order_of_claims(start: Start, tmp_path: Path) -> None:
    """Claims for one GPU do not overtake a claim for many."""
    first = start("first", 2)
    wait_for(lambda: len(gpus_by_process().get("first", ())) == 2, 20, "two are held")
    start("large", 2)
    wait_for(lambda: "large" in gpus_by_process(), 20, "it has asked")
    start("small", 1)
    note = tmp_path / "small" / gpus.NOTE
    assert "large asked before" in wait_for(lambda: note.exists() and note.read_text(), 20, "it says why")
    first.kill()
    first.wait()
    wait_for(lambda: all(gpus_by_process().get(who) for who in ("large", "small")), 20, "both have theirs")
    assert not set(gpus_by_process()["large"]) & set(gpus_by_process()["small"])


def test_gpus_busy_with_other_programs_are_not_assigned(fake_gpus: Path) -> None:
    fake_gpus.write_text(
        json.dumps({"gpus": [{"uuid": "GPU-0", "programs": {str(os.getpid()): 1 << 30}}, {"uuid": "GPU-1"}]})
    )
    assert gpus.claim(1, "me", 1.0) == ("GPU-1",)
    answer = gpus.claim(2, "me", 1.0)
    assert isinstance(answer, str)
    assert f"GPU 0 is busy (python {os.getpid()} of " in answer


def test_memory_and_use_of_the_gpus_of_a_process(fake_gpus: Path) -> None:
    programs = {"7": 1 << 30, "8": 1 << 30}
    gpu = {"uuid": "GPU-0", "use": 97, "programs": {**programs, "9": 1 << 29}}
    fake_gpus.write_text(json.dumps({"gpus": [gpu, {"uuid": "GPU-1", "programs": programs}]}))
    assert usage._on_gpus({7: "a", 8: "a", 9: "b"}) == {"a": "0: 2.0G 97%, 1: 2.0G", "b": "0: 0.5G 97%"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"pid": 1}', b'{"pid":1,"start":0,"who":"x","count":1,"asked":0,"gpus":["GPU-0"]}'],
)
def test_an_invalid_claim_file_is_ignored(fake_gpus: Path, content: bytes) -> None:
    (gpus.folder() / "0-1").write_bytes(content)
    (gpus.folder() / "7-7").mkdir()
    assert gpus.claims() == []
    assert gpus.claim(3, "me", 1.0) == ("GPU-0", "GPU-1", "GPU-2")


def test_a_claim_file_not_owned_by_the_user_of_the_process_is_ignored(fake_gpus: Path) -> None:
    if os.getuid():
        pytest.skip("only root can give a file away")
    assert gpus.claim(1, "me", 1.0)
    (file,) = gpus.folder().glob("0-*")
    os.chown(file, 12345, 12345)
    file.rename(file.with_name(f"12345-{os.getpid()}"))
    assert gpus.claims() == []


def test_a_claim_folder_without_sticky_bit_is_refused(fake_gpus: Path) -> None:
    gpus.folder().chmod(0o777)
    with pytest.raises(SymphonyError) as refused:
        gpus.folder()
    assert "1777" in refused.value.remedy


def test_a_claim_folder_that_another_process_is_making_is_accepted(
    fake_gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_mode = Path.chmod

    def meanwhile(path: Path, mode: int) -> None:
        assert gpus.folder() == path
        change_mode(path, mode)

    monkeypatch.setattr(Path, "chmod", meanwhile)
    assert gpus.folder().stat().st_mode & 0o7777 == 0o1777


def test_real_gpus_of_this_machine_are_listed() -> None:
    """Needs a real driver."""
    gpus._nvml.cache_clear()
    sys.modules.pop("pynvml", None)
    every = gpus.devices()
    if not every:
        pytest.skip("this machine has no GPU")
    assert all(gpu.uuid.startswith("GPU-") and gpu.total > 0 for gpu in every)


@pytest.mark.thorough
def test_an_experiment_claims_gpus_shows_them_and_releases_them(sandbox: Sandbox, fake_gpus: Path) -> None:
    env: dict[str, Any] = {
        name: os.environ[name] for name in ("FAKE_NVML", "PYTHONPATH", gpus.FOLDER_VARIABLE)
    }
    program = (
        'with Experiment(inherit=["FAKE_NVML", "PYTHONPATH"]) as e:\n'
        " for name, count in (('a', 2), ('b', 2)):\n"
        "  p = e.new_process(name, cmds=['echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER', 'sleep 600'])\n"
        "  p.resource_limit(gpu=count, cpu=1)"
    )
    sandbox.write(program)
    sandbox.config("rl", patience="2")
    assert "a 2, b 2; 4 in all" in sandbox.symphony("plan", "rl", env=env).out
    # `up` waits until both have a claim, of which only one gets its GPUs.
    assert "1 of 2 running" in sandbox.symphony("up", "rl", "-y", env=env, code=1).out

    def settled() -> dict[str, dict[str, Any]]:
        every = sandbox.processes("rl", env=env)
        return every if {row["state"] for row in every.values()} == {"running", "waiting"} else {}

    rows = wait_for(settled, 90, "one waits")
    (waiting,) = [row for row in rows.values() if row["state"] == "waiting"]
    (running,) = [row for row in rows.values() if row["state"] == "running"]
    assert f"rl/{running['path']}" in waiting["why"]
    assert "GPU" in sandbox.symphony("why", "rl", waiting["path"], env=env).out
    listed = sandbox.symphony("gpus", "--json", env=env).json
    assert [gpu["held_by"] is not None for gpu in listed["gpus"]].count(True) == 2
    assert [each["count"] for each in listed["waiting"]] == [2]
    shown = sandbox.symphony("logs", "rl", running["path"], env=env).out
    assert "GPU-" in shown
    assert "PCI_BUS_ID" in shown
    sandbox.write(program.replace("('a', 2)", "('a', 9)"))
    assert "9 GPUs" in sandbox.symphony("plan", "rl", env=env, code=2).err
    sandbox.symphony("delete", "rl", "-y", env=env)
    assert "held by" in sandbox.symphony("gpus", env=env).out
    assert gpus.claims() == []


@pytest.mark.thorough
def test_a_gpu_limit_is_ignored_on_a_machine_without_gpus(sandbox: Sandbox) -> None:
    """So a program for pods also runs on a laptop; the plan says that it gets no GPUs."""
    sandbox.write('with Experiment() as e: e.new_process("a", command=["sleep", "9"]).resource_limit(gpu=1)')
    env = {"PYTHONPATH": str(FAKE)}
    shown = sandbox.symphony("plan", "rl", env=env).out
    assert "Not used on tmux: resource_limit (a)" in shown
    assert "GPUs of" not in shown
    assert sandbox.symphony("gpus", env=env, code=2).err.count("\n") == 1
