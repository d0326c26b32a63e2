"""One Slurm job for each experiment: how edits change it, how it ends, which jobs are left untouched."""

from __future__ import annotations

import re
import socket
from typing import Any

import psutil
import pytest

from tests.backends.slurm.conftest import Lab
from tests.sandbox import wait_for
from toolchain.slurm.cluster import NODES

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
PROGRAM = """
from symphony import Resources
with Experiment() as e:
    e.new_process("server", "exec python3 -m http.server $SYMPH_WEB_PORT --bind $SYMPH_WEB_BIND").binds("web")
    e.new_process("client", "echo $SYMPH_WEB_ADDR; exec sleep SECONDS", resources=RESOURCES).connects("web")
"""


def up(lab: Lab, seconds: int = 1000, resources: str = "Resources()", **more: Any) -> str:
    lab.sandbox.write(PROGRAM.replace("SECONDS", str(seconds)).replace("RESOURCES", resources))
    return lab.sandbox.symphony("up", "rl", "-y", timeout=120, **more).out


def test_edits_keep_the_job_and_a_process_too_large_for_it_replaces_the_job(lab: Lab) -> None:
    """The addresses of services point to the node that serves them."""
    up(lab)
    node = lab.sandbox.processes("rl")["server"]["node"]
    web = lab.addresses()["web"]
    assert (web["node"], web["host"]) == (node, NODES[node])
    output = lab.sandbox.symphony("logs", "rl", "client").out
    assert output.strip() == f"{NODES[node]}:{web['port']}"
    call = f"import urllib.request as u; print(u.urlopen('http://{NODES[node]}:{web['port']}').status)"
    assert lab.sandbox.symphony("exec", "rl", "client", "--", "python3", "-c", call).out == "200\n"

    # An edit restarts only its process.
    (job,), before = lab.jobs(), lab.sandbox.trees()
    out = up(lab, seconds=1001)
    assert "new allocation" not in out
    assert lab.jobs() == [job]
    assert lab.sandbox.trees()["rl/server"] == before["rl/server"]
    assert lab.sandbox.trees()["rl/client"] != before["rl/client"]

    lab.sandbox.write(PROGRAM.replace("SECONDS", "1000").replace("RESOURCES", "Resources(cpu=3)"))
    plan = lab.sandbox.symphony("plan", "rl").out
    assert re.search(rf"needs a new allocation: job {job} has 2 nodes with 1 cpu", plan)
    assert lab.jobs() == [job]
    up(lab, resources="Resources(cpu=3)")
    assert len(lab.jobs()) == 1
    assert lab.jobs() != [job]
    assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"running"}


def test_clients_of_a_service_that_moved_are_reported(lab: Lab) -> None:
    up(lab)
    port = lab.addresses()["web"]["port"]
    for pid in lab.sandbox.trees()["rl/server"]:
        psutil.Process(pid).kill()
    lab.becomes("server", "failed")
    with socket.create_server(("0.0.0.0", port)):
        output = lab.sandbox.symphony("restart", "rl", "server", "-y", timeout=60).out
    web = lab.addresses()["web"]
    assert web["port"] != port
    moved = f"web has moved to {web['host']}:{web['port']}"
    assert moved in output
    assert f"web:{web['port']}" in lab.sandbox.symphony("graph", "rl").out
    client = lab.sandbox.processes("rl")["client"]
    assert (client["state"], client["why"], client["ready"]) == ("running", moved, True)
    assert moved in lab.sandbox.symphony("why", "rl", "client").out
    lab.sandbox.symphony("restart", "rl", "client", "-y", timeout=60)
    assert not lab.sandbox.processes("rl")["client"]["why"]


def test_services_that_do_not_listen_yet_keep_their_ports(lab: Lab) -> None:
    lab.sandbox.config("rl", nodes="1")
    program = """
with Experiment(port_range=(21000, 21002)) as e:
    e.new_process("a", "exec sleep 1000").binds("web")
    e.new_process("b", "exec sleep 1000").binds({"fixed": 21001})
"""
    lab.sandbox.write(program)
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    web = lab.addresses()["web"]
    lab.sandbox.write(f"""{program}    e.new_process("c", "exec sleep 1000").binds("aux")\n""")
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    addresses = lab.addresses()
    assert addresses["web"] == web
    assert sorted(address["port"] for address in addresses.values()) == [21000, 21001, 21002]


def test_up_refuses_a_job_that_slurm_could_never_start(lab: Lab) -> None:
    lab.sandbox.write(PROGRAM.replace("SECONDS", "1").replace("RESOURCES", "Resources(cpu=1000)"))
    ran = lab.sandbox.symphony("up", "rl", "-y", code=2)
    assert "1000 cpu" in ran.out + ran.err
    assert lab.jobs() == []


def test_options_of_sbatch_for_several_jobs_are_refused_at_their_line(lab: Lab) -> None:
    lab.sandbox.write(PROGRAM.replace("SECONDS", "1").replace("RESOURCES", "Resources()"))
    lab.sandbox.config("rl", sbatchOptions='["--exclusive", "--array=1-3"]')
    refused = lab.sandbox.symphony("plan", "rl", code=2).err
    assert "--array=1-3" in refused
    assert "Pulumi.rl.yaml" in refused


def test_plan_names_a_service_without_its_port_and_a_time_that_the_partition_does_not_allow(lab: Lab) -> None:
    lab.sandbox.write(PROGRAM.replace("SECONDS", "1000").replace("RESOURCES", "Resources()"))
    lab.sandbox.config("rl", partition="short", nodes="1", time="9:00:00")
    plan = lab.sandbox.symphony("plan", "rl").out
    assert re.search(r"\bweb *$", plan, re.M), "its port is chosen in the job"
    assert "asks for 9:00:00, but the partition short allows 10:00" in plan


def test_a_pending_job_shows_the_reason_and_later_starts_its_processes(lab: Lab) -> None:
    with lab.foreign_job("--partition=spare", "--nodes=2", "--exclusive") as job:
        wait_for(lambda: "RUNNING" in lab.ask("squeue", "-h", "-j", job, "-o", "%T"), 60, "it has the nodes")
        lab.sandbox.config("rl", patience="1", partition="spare")
        up(lab, code=1)
        status = lab.sandbox.processes("rl")["client"]
        assert status["state"] == "waiting"
        assert "in the queue" in status["why"]
        assert [link["step"] for link in lab.why("client") if link["broken"]] == ["queue"]
        assert "waiting" in lab.sandbox.symphony("ls").out
    lab.becomes("client", "running", 60)


def test_a_cancelled_job_is_reported_and_the_next_up_submits_another(lab: Lab) -> None:
    up(lab)
    (job,) = lab.jobs()
    lab.ask("scancel", job)
    status = lab.becomes("client", "lost")
    assert f"job {job} has ended" in status["why"]
    assert "it was cancelled" in status["why"]
    assert lab.sandbox.trees() == {}
    refused = lab.sandbox.symphony("exec", "rl", "client", "--", "true", code=1).err
    assert f"client does not run: job {job} has ended" in refused
    up(lab)
    assert lab.jobs() != [job]


def test_at_the_time_limit_processes_get_sigterm_and_can_save(lab: Lab) -> None:
    lab.sandbox.config("rl", time="1")
    lab.sandbox.write(
        """
with Experiment() as e:
    e.new_process("a", "trap 'echo saved; exit 0' TERM; while :; do sleep 0.2; done")
"""
    )
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    began = lab.becomes("a", "running")["since"]
    status = lab.becomes("a", "lost", 90)
    assert "it reached its time limit" in status["why"]
    assert status["since"] > began, "the time of its end"
    assert "saved" in lab.sandbox.symphony("logs", "rl", "a").out


def test_a_longer_grace_is_given_to_processes_that_run_already(lab: Lab) -> None:
    lab.sandbox.write(
        """
with Experiment() as e:
    e.new_process("a", "trap 'sleep 4; touch saved; exit' TERM; while :; do sleep 0.2; done")
"""
    )
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    before = lab.sandbox.processes("rl")["a"]["since"]
    lab.sandbox.config("rl", grace="20")
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    assert lab.sandbox.processes("rl")["a"]["since"] == before
    lab.sandbox.symphony("delete", "rl", "-y", timeout=60)
    assert (lab.sandbox.folder / "saved").exists()


def test_an_up_while_the_job_ends_by_itself_submits_another(lab: Lab) -> None:
    lab.sandbox.config("rl", notify="sleep 20")
    for number in ("1", "2"):
        program = f"""e.new_process("a", "echo $N", env={{"N": "{number}"}})"""
        lab.sandbox.write(f"with Experiment() as e:\n    {program}\n")
        lab.sandbox.symphony("up", "rl", "-y", timeout=120)
        lab.sandbox.symphony("wait", "rl", "--timeout", "60s")
    assert [line["text"] for line in lab.lines() if not line["ended"]] == ["1", "2"]


def test_a_foreign_job_with_the_same_name_is_left_untouched(lab: Lab) -> None:
    with lab.foreign_job("--job-name=rl", "--chdir=/tmp") as stranger:
        up(lab)
        lab.sandbox.symphony("delete", "rl", "-y", timeout=60)
        assert lab.ask("squeue", "-h", "-j", stranger, "-o", "%T").strip() in ("RUNNING", "PENDING")


def test_an_unreachable_slurm_controller_is_a_one_line_error(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(lab)
    text = lab.slurm.configuration.read_text()
    elsewhere = lab.sandbox.home / "slurm.conf"
    elsewhere.write_text(text.replace("SlurmctldPort=17000", "SlurmctldPort=17999"))
    (folder,) = (lab.sandbox.home / "slurm").glob("rl-*")
    (file,) = folder.glob("experiment@*.json")
    before = file.read_text()
    file.write_text(before.replace(str(lab.slurm.configuration), str(elsewhere)))
    try:
        for words in (("process", "rl"), ("why", "rl", "client"), ("drift", "rl"), ("delete", "rl", "-y")):
            ran = lab.sandbox.symphony(*words, code=1)
            assert "Slurm does not answer" in ran.err
            assert "Traceback" not in ran.err
        monkeypatch.setitem(lab.sandbox.environment, "SLURM_CONF", str(elsewhere))
        rows = lab.sandbox.symphony("doctor").out.splitlines()
        assert ["Slurm does not answer" in row for row in rows if row.startswith("slurmctld")] == [True]
    finally:
        file.write_text(before)


SECRET = """
with Experiment() as e:
    e.new_process("a", "echo $TOKEN", secret_env={"TOKEN": "token.txt"})
    e.new_process("b", "echo $TOKEN", secret_env={"TOKEN": "token.txt"})
"""


def test_a_job_that_ends_by_itself_removes_its_secrets_and_a_restart_has_them_again(lab: Lab) -> None:
    (lab.sandbox.folder / "token.txt").write_text("hush")
    lab.sandbox.write(SECRET)

    def end() -> list[str]:
        """Return the processes that printed the secret, one for each start, when the job has ended."""
        wait_for(lambda: not lab.jobs(), 40, "the job has ended")
        assert [*(lab.sandbox.home / "slurm").rglob("secrets@*.sh")] == []
        assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"completed"}
        return sorted(line["path"] for line in lab.lines() if line["text"] == "hush")

    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    assert end() == ["a", "b"]
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    assert end() == ["a", "b"]
    lab.sandbox.symphony("restart", "rl", "a", "-y", timeout=60)
    assert end() == ["a", "a", "b"]
