"""The `symphony` program as a process: imports, errors, exit codes, closed outputs."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from symphony.cli import commands, main
from symphony.errors import SymphonyError, UserError

SYMPHONY = [sys.executable, "-m", "symphony.cli.main"]


def call(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*SYMPHONY, *words], **{"capture_output": True, "text": True, "timeout": 60, "check": False, **more}
    )


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_overview_names_every_command(words: list[str]) -> None:
    done = call(*words)
    assert (done.returncode, done.stderr) == (0, "")
    for row in commands.COMMANDS:
        assert f"  {row.name}" in done.stdout
    assert "Examples:\n      mkdir lab && cd lab && symphony init && symphony up\n" in done.stdout


def test_help_imports_no_heavy_package() -> None:
    program = (
        "import sys; from symphony.cli.main import main; main(['--help']); "
        "heavy = {'pulumi', 'grpc', 'rich', 'yaml', 'psutil', 'zmq', 'kubernetes'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.thorough
def test_an_experiment_in_tmux_imports_no_other_backend(tmp_path: Path) -> None:
    """From the import of symphony to the resources."""
    program = (
        "import sys; import symphony; from symphony import Experiment\n"
        "from symphony.classic import Cluster\n"
        "e = Cluster.new('tmux').new_experiment('rl')\n"
        "e.new_process('a', command=['sleep', '1']).binds('x')\n"
        "print(Cluster.new('tmux').launch(e, dry_run=True))\n"
        "heavy = {'pulumi_kubernetes', 'pulumi_gcp', 'kubernetes', 'docker', 'libtmux', 'textual', 'zmq'}\n"
        "print(sorted(heavy & set(sys.modules)), 'pulumi' in sys.modules)"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[] True"


def test_reading_commands_on_tmux_import_only_what_they_need() -> None:
    program = (
        "import importlib, sys; from symphony.cli import commands\n"
        "for name in ('ls', 'process', 'why', 'logs', 'exec', 'scp', 'visit'):\n"
        "    commands.load(commands.find(name))\n"
        "for module in ('symphony.backends.tmux.observe', 'symphony.backends.tmux.access'):\n"
        "    importlib.import_module(module)\n"
        "from symphony.cli.main import main; main(['ls', '--json'])\n"
        "heavy = {'rich', 'tarfile', 'webbrowser', 'pydantic', 'symphony.cli.up', 'kubernetes'}\n"
        "heavy |= {'symphony_tmux.logs', 'symphony_tmux.processes.launch_file'}\n"
        "heavy |= {'symphony.backends.kubernetes.observe', 'symphony.backends.slurm.observe'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_of_each_command_has_examples_and_imports_no_pulumi() -> None:
    names = [row.name for row in commands.COMMANDS]
    program = (
        "import sys; from symphony.cli.main import main\n"
        f"for name in {names}:\n"
        "    code = main([name, '-h']); print(f'\\0{code}', 'pulumi' in sys.modules, 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    helps = done.stdout.split("\x000 False False\n")
    assert helps.pop() == ""
    for name, shown in zip(names, helps, strict=True):
        assert shown.startswith(f"Usage: symphony {name} ")
        assert f"symphony {name}" in shown.partition("Examples:\n")[2].replace('eval "$(', "")


def test_an_option_has_the_same_short_name_in_every_command() -> None:
    names: dict[str, set[frozenset[str]]] = {"--dry-run": set(), "--json": set()}
    for row in commands.COMMANDS:
        for option in commands.load(row).params:
            for long in names.keys() & {*option.opts}:
                names[long].add(frozenset(option.opts))
    assert names == {"--dry-run": {frozenset(["--dry-run", "-dr"])}, "--json": {frozenset(["--json"])}}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("doctr", ["'doctr'", "'doctor'?", "`symphony --help`"]),
        ("\x1b[2J", ["'\\x1b[2J'"]),
        ("env --bogus", ["--bogus", "`symphony env --help`"]),
    ],
)
def test_usage_errors_are_one_line(command: str, words: list[str]) -> None:
    done = call(*command.split(" "))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert [word for word in words if word not in done.stderr] == []


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        ("SymphonyError('it broke', where='a.py:3', remedy='Mend it')", 1, "it broke (a.py:3). Mend it."),
        ("UserError('you broke it')", 2, "you broke it."),
        ("SymphonyError('bad \\x1b[31m\\nname')", 1, "bad \ufffd[31m name."),
        ("KeyboardInterrupt()", 130, "interrupted."),
        ("KeyError('x')", 1, "this is a bug in symphony: KeyError: 'x'"),
        ("OSError(28, 'No space left on device', '/x')", 1, "No space left on device (/x)"),
        ("OSError(30, 'Read-only file system', '/x')", 1, "Read-only file system (/x). Make it accessible"),
        ("OSError(13, 'Permission denied', '/x')", 1, "Permission denied (/x). Make it accessible"),
    ],
)
def test_exceptions_become_one_line_and_an_exit_code(
    raised: str, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = eval(raised, {"SymphonyError": SymphonyError, "UserError": UserError})
    if isinstance(error, SymphonyError):
        error.details = ("  one", "  t\x07wo")

    def dispatch(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(main, "_dispatch", dispatch)
    assert main.main([]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *details = shown.err.splitlines()
    assert first.startswith(f"symphony: {message}")
    assert details == (["  one", "  t\ufffdwo"] if isinstance(error, SymphonyError) else [])


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    env = {**os.environ, "PULUMI_BACKEND_URL": f"file://{tmp_path}/file/in/the/way"}
    (tmp_path / "file").write_text("")
    plain = call("env", env=env)
    assert plain.returncode == 1
    assert plain.stderr.count("\n") == 1
    assert "Traceback" not in plain.stderr
    assert "Traceback" in call("env", "--debug", env=env).stderr
    assert "Traceback" in call("--debug", "env", env=env).stderr


def test_debug_shows_the_traceback_of_an_error_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an error once passed for one of standard output."""

    def dispatch(words: list[str]) -> int:
        raise PermissionError(13, "Permission denied", "/x")

    monkeypatch.setattr(main, "_dispatch", dispatch)
    monkeypatch.setattr(main, "_debugs", lambda: True)
    with pytest.raises(PermissionError):
        main.main([])


def test_debug_after_two_dashes_belongs_to_the_child_command(own_home: Path) -> None:
    for words, code in (("exec p -- cmd --debug", 2), ("exec --debug p -- cmd", 1)):
        done = call(*words.split(), cwd=own_home.parent)
        assert (done.returncode, "Traceback" in done.stderr) == (code, code == 1), done


@pytest.mark.parametrize(
    ("words", "closed", "code"), [("--help", ">&-", 0), ("up x", "2>&-", 2), ("up x", "<&- >&-", 2)]
)
def test_closed_standard_streams_cause_no_traceback(
    own_home: Path, words: str, closed: str, code: int
) -> None:
    command = ["bash", "-c", f"{' '.join(SYMPHONY)} {words} {closed}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=own_home.parent)
    assert done.returncode == code, done
    assert "Traceback" not in done.stdout + done.stderr
    assert "unexpected" not in done.stderr, done


def test_the_exit_code_is_kept_when_the_output_pipe_is_closed(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    env.pop("PYTHONUNBUFFERED", None)
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            [*SYMPHONY, "doctor"], stdout=theirs, stderr=subprocess.PIPE, env=env, check=False
        )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.thorough
@pytest.mark.parametrize("term", [None, "dumb", "xterm-256color"])
def test_colour_depends_on_term(term: str | None) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TERM"}
    if term is not None:
        env["TERM"] = term
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*SYMPHONY, "doctor"], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    process.wait(timeout=20)
    assert b"tmux" in shown
    assert b"Traceback" not in shown
    assert (b"\x1b[" in shown) == (term == "xterm-256color")


@pytest.mark.usefixtures("engine")
def test_env_prints_exports_that_bash_evaluates(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = own_home / "it's $(odd)"
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{odd}")
    monkeypatch.delenv("USER", raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    facts = json.loads(call("env", "--json").stdout)
    assert facts["PULUMI_BACKEND_URL"] == f"file://{odd}"
    assert "USER" not in facts, "the engine finds the name of a user who has one"
    assert "127.0.0.1" in facts["no_grpc_proxy"]
    script = (
        f'eval "$({" ".join(SYMPHONY)} env)"; printf %s "$PULUMI_BACKEND_URL"; pulumi stack ls --all --json'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"file://{odd}[]\n"


@pytest.mark.usefixtures("engine")
def test_env_makes_the_state_folder_private_and_keeps_the_umask(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a state folder that was created with open permissions, and twice in one shell."""
    state = own_home / "state"
    state.mkdir(parents=True)
    state.chmod(0o755)
    own_home.chmod(0o755)
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{state}")
    evaluated = f'eval "$({" ".join(SYMPHONY)} env)"'
    place = own_home.parent / "plain"
    place.mkdir()
    (place / "Pulumi.yaml").write_text("name: plain\nruntime: python\n")
    script = f"umask 022; {evaluated}; {evaluated}; pulumi stack init open >&2; umask"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=place)
    assert done.stdout.split() == ["0022"]
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE(own_home.stat().st_mode) == 0o755, "a home may be anywhere, it is not ours to close"


@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
def test_doctor_and_setup_report_the_same_versions() -> None:
    rows = {row["name"]: row for row in json.loads(call("doctor", "--json").stdout)}
    assert rows["pulumi"]["there"]
    assert rows["tmux"]["there"]
    ready = {row["name"]: row for row in json.loads(call("setup", "--json").stdout)}
    assert ready["pulumi"]["version"] == rows["pulumi"]["version"]
    assert ready["tmux"]["version"] == rows["tmux"]["version"]


@pytest.mark.thorough
def test_doctor_lists_missing_prerequisites(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = call("doctor", env=env)
    assert done.returncode == 1
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "missing" in lines["tmux"]
    assert lines["pulumi"].split() == ["pulumi", "missing", "symphony", "setup"]
    assert lines["python"].split()[1] == "ok"
    assert lines["perl"].split()[2] == "-"
    assert "no restart policy" in lines["perl"]


def test_rbac_prints_the_documented_role() -> None:
    role = yaml.safe_load(call("rbac").stdout)
    assert (role["kind"], role["metadata"]["name"]) == ("Role", "symphony-experimenter")
