"""Getting the engine: the order of ways, all or nothing, one at a time. The tools on PATH are stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from symphony import paths
from symphony.engine import binary, environment, gobuild, setup
from symphony.engine.subprocess_progress import Unavailable, Work, WorkProgress
from symphony.errors import SymphonyError
from tests.sandbox import wait_for

# Stands in for Go: downloads nothing, compiles a shell script, takes its time when told so.
GO = """#!/bin/sh
echo "$@" >>"$LOG"
case "$1 $2" in
"env GOVERSION") echo "${GO_VERSION:-go1.26.8}" ;;
"mod download") printf '{\\n}\\n{\\n}\\n'; exit 1 ;;
"list -deps") printf 'fmt\\nexample.com/a\\nexample.com/b\\n' ;;
"list -m") echo "{\\"Dir\\": \\"$SDK\\"}" ;;
"build -v")
    echo example.com/a; echo example.com/b; sleep "${GO_SLOW:-0}"
    [ -z "$GO_FAILS" ] || { echo "a.go:1: does not compile"; exit 2; }
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho v3.259.0\\n' >"$2"
    ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a Go of ours, without engine and without a network."""
    sdk = tmp_path / "sdk/python"
    for script in ("cmd/pulumi-language-python-exec", "dist/pulumi-resource-pulumi-python"):
        (sdk / script).parent.mkdir(parents=True)
        (sdk / script).write_text("#!/bin/sh\n")
        (sdk / script).chmod(0o444)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "go").write_text(GO)
    (bin_ / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    monkeypatch.setattr(gobuild, "USUAL_GO", str(tmp_path / "usual/go"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOG", str(tmp_path / "go.log"))
    monkeypatch.setenv("SDK", str(tmp_path / "sdk"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    return tmp_path


def quiet(progress: WorkProgress) -> None:
    pass


def left_over() -> list[str]:
    return sorted(path.name for path in paths.cache().glob("*") if path.name.startswith("building"))


def test_built_from_go_when_nothing_else_works(machine: Path) -> None:
    messages: list[WorkProgress] = []
    began = time.monotonic()
    result = setup.engine(messages.append)
    assert time.monotonic() - began < 10, "a host that cannot be reached costs seconds"
    assert result == binary.Engine(binary.cache_folder() / "pulumi", "cache")
    assert {p.name: oct(p.stat().st_mode & 0o777) for p in binary.cache_folder().iterdir()} == dict.fromkeys(
        [*binary.PARTS, "pulumi-language-python-host"], "0o755"
    )
    assert left_over() == []
    compiled = [p for p in messages if "compiling the command line" in p.what]
    assert (compiled[-1].done, compiled[-1].total, compiled[-1].finished) == (3, 3, True)
    assert any("modules" in p.what and p.total > 200 for p in messages), "the modules are counted off go.mod"
    flags = (machine / "go.log").read_text()
    assert "-trimpath -tags osusergo,grpcnotrace" in flags
    assert "version.Version=v3.259.0" in flags
    (machine / "go.log").unlink()
    assert setup.engine(messages.append) == result
    assert not (machine / "go.log").exists(), "the second time nothing is done"


def test_go_that_is_not_on_path_is_found_where_its_instructions_put_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "bin").rename(machine / "usual")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert setup.engine(quiet) == binary.Engine(binary.cache_folder() / "pulumi", "cache")


def test_installer_is_asked_before_go(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """#!/bin/sh
echo "$@" >>"$LOG"
while [ "$1" != --install-root ]; do shift; done
mkdir -p "$2/bin" && cd "$2/bin" || exit 1
for part in pulumi pulumi-language-python pulumi-language-python-exec pulumi-resource-pulumi-python; do
    printf '#!/bin/sh\\necho v3.259.0\\n' >$part
done
"""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(script.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(setup, "INSTALLER", f"http://127.0.0.1:{server.server_port}/install.sh")
        result = setup.engine(quiet)
        server.shutdown()
    assert result.source == "cache"
    asked = (machine / "go.log").read_text()
    assert asked.startswith("--no-edit-path --install-root ")
    assert "--version 3.259.0" in asked
    assert "-trimpath" not in asked


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("GO_VERSION", "go1.21.3", "Go 1.21 is older than 1.26"),
        ("GO_VERSION", "devel", "`go env GOVERSION` does not work"),
        ("GO_FAILS", "1", "`go build` failed: a.go:1: does not compile"),
        ("SDK", "/nowhere", "are not where they were"),
        ("PATH", "/usr/bin:/bin", "Go is not installed"),
    ],
)
def test_no_way_is_one_line_with_all_reasons(
    machine: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SymphonyError) as error:
        setup.engine(quiet)
    assert "https://get.pulumi.com/install.sh cannot be reached; " in str(error.value)
    assert message in str(error.value)
    assert "Install Pulumi (pulumi.com/docs/install) or Go 1.26" in error.value.remedy
    assert left_over() == []
    assert binary.find() is None


SET_UP = """
import sys
from symphony.engine import setup
print(setup.engine(lambda p: print(p.what, file=sys.stderr, flush=True)).pulumi)
"""


def test_two_at_once_build_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_SLOW", "1")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SET_UP], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    messages = [process.communicate(timeout=60) for process in both]
    assert [out.strip() for out, _ in messages] == [str(binary.cache_folder() / "pulumi")] * 2
    assert (machine / "go.log").read_text().count("build -v") == 2, "command line and host, once each"
    assert sum("waiting for another set-up" in err for _, err in messages) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_interrupted_set_up_recovers(
    machine: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("GO_SLOW", "30")
    process = subprocess.Popen([sys.executable, "-c", SET_UP], stderr=subprocess.DEVNULL)
    log = machine / "go.log"
    wait_for(lambda: log.exists() and "build -v" in log.read_text(), 20, "the compiler runs")
    process.send_signal(number)
    process.wait(timeout=10)
    assert binary.find() is None
    monkeypatch.setenv("GO_SLOW", "0")
    assert setup.engine(quiet).source == "cache"
    assert left_over() == []


def test_work_ends_with_its_program_and_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = f"sleep 60 & echo $! >{mark}; echo; wait"
    with pytest.raises(KeyboardInterrupt), Work("sleeping", interrupt_after(mark)) as work:
        work.run(["sh", "-c", script], counts=lambda line: True)
    pid = int(mark.read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid), 5, "the child ends")


def interrupt_after(file: Path) -> setup.Report:
    def report(progress: WorkProgress) -> None:
        if file.exists() and file.read_text():
            raise KeyboardInterrupt

    return report


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_failing_program_is_its_last_line() -> None:
    with pytest.raises(Unavailable, match="`sh -c` failed: no luck"), Work("trying", quiet) as work:
        work.run(["sh", "-c", "echo some; echo no luck; exit 3"])


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (
            "runtime:\n  name: python\n  options:\n    virtualenv: .venv\n",
            "-virtualenv .venv -root {folder} x",
        ),
        ("runtime: {name: python, options: {virtualenv: 'my-env'}}\n", "-virtualenv my-env -root {folder} x"),
        ("runtime: python\n", "x"),
    ],
)
def test_the_host_is_told_the_virtualenv_of_the_nearest_project(
    tmp_path: Path, yaml: str, message: str
) -> None:
    project = tmp_path / "project"
    (project / "below").mkdir(parents=True)
    (project / "Pulumi.yaml").write_text(f"name: p\n{yaml}")
    assert host_of(project / "below")["words"] == message.format(folder=project)


@pytest.mark.parametrize("virtualenv", [".venv", "{folder}/mine"], ids=["relative", "absolute"])
def test_where_symphony_is_about_the_host_is_spared_pip(tmp_path: Path, virtualenv: str) -> None:
    virtualenv = virtualenv.format(folder=tmp_path)
    (tmp_path / virtualenv / "bin").mkdir(parents=True)
    (tmp_path / virtualenv / "bin" / "python").touch()
    (tmp_path / "Pulumi.yaml").write_text(
        f"name: p\nruntime:\n  name: python\n  options: {{virtualenv: '{virtualenv}'}}\n"
    )
    shim = Path(environment.__file__).parent / "tuning" / "python.sh"
    result = host_of(tmp_path, SYMPHONY_PYTHON=str(shim), PYTHONHOME="/elsewhere")
    bin_ = tmp_path / virtualenv / "bin"
    assert result["words"] == "x", "the flag would bring the host to ask pip"
    assert result["PULUMI_PYTHON_CMD"] == str(shim)
    assert result["SYMPHONY_PYTHON_CMD"] == str(bin_ / "python")
    assert result["PATH"].startswith(f"{bin_}:")
    assert "PYTHONHOME" not in result


def test_a_virtualenv_that_is_not_there_is_the_hosts_to_tell(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("runtime: {name: python, options: {virtualenv: gone}}\n")
    shim = Path(environment.__file__).parent / "tuning" / "python.sh"
    assert host_of(tmp_path, SYMPHONY_PYTHON=str(shim))["words"] == f"-virtualenv gone -root {tmp_path} x"


def host_of(folder: Path, **more: str) -> dict[str, str]:
    """What the script in front of the Python host starts in a folder: its words and its environment."""
    engine = folder / "engine"
    engine.mkdir()
    shim = engine / "pulumi-language-python"
    shim.write_bytes((binary.go_modules() / "pulumi-language-python.sh").read_bytes())
    host = engine / "pulumi-language-python-host"
    host.write_text('#!/bin/sh\necho "words=$*"\nexec env\n')
    for file in (shim, host):
        file.chmod(0o755)
    done = subprocess.run(
        [shim, "x"],
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
