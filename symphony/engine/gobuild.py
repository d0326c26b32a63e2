"""Builds the engine from Go modules, for machines that release downloads do not reach."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from symphony.engine import binary
from symphony.engine.subprocess_progress import Report, Unavailable, Work

OLDEST = (1, 26)
_CLI = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_HOST = "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
# Where Go's own instructions put it; they leave PATH to the user.
USUAL_GO = "/usr/local/go/bin/go"
# Without its version the Automation API refuses the command line.
_VERSION_FLAG = f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{binary.VERSION}"


def build(folder: Path, report: Report) -> Path:
    """Build command line and Python host in a scratch folder; returns the folder of the parts."""
    go = usable_go()
    made = folder / "made"
    made.mkdir()
    for module in ("cli", "python-host"):
        shutil.copytree(binary.go_modules() / module, folder / module)
    _download(go, folder / "cli", "engine: fetching the modules of the command line", report)
    _compile(go, folder / "cli", _CLI, made / "pulumi", "engine: compiling the command line", report)
    _download(go, folder / "python-host", "engine: fetching the modules of the Python host", report)
    host = made / "pulumi-language-python-host"
    _compile(go, folder / "python-host", _HOST, host, "engine: compiling the Python host", report)
    shutil.copyfile(binary.go_modules() / "pulumi-language-python.sh", made / "pulumi-language-python")
    _copy_scripts(go, folder / "cli", made)
    return made


def usable_go() -> str:
    """The Go of this machine. Raises Unavailable for none, or one too old."""
    go = shutil.which("go") or shutil.which(USUAL_GO)
    if go is None:
        raise Unavailable("Go is not installed")
    answer = _ask([go, "env", "GOVERSION"], Path.cwd())
    try:
        major, minor = (int(part) for part in answer.strip().removeprefix("go").split(".")[:2])
    except ValueError as error:
        raise Unavailable("`go env GOVERSION` does not work") from error
    if (major, minor) < OLDEST:
        raise Unavailable(f"Go {major}.{minor} is older than {OLDEST[0]}.{OLDEST[1]}")
    return go


def _download(go: str, module: Path, what: str, report: Report) -> None:
    text = (module / "go.mod").read_text()
    total = sum(1 for line in text.splitlines() if line.startswith("\t") and " v" in line)
    with Work(what, report, total) as work:
        # It also asks for what no build needs and fails when that is not to be had: the compiler judges.
        download = [go, "mod", "download", "-json"]
        work.run(download, cwd=module, counts=lambda line: line.startswith("{"), check=False)


def _compile(go: str, module: Path, package: str, to: Path, what: str, report: Report) -> None:
    env = {**os.environ, "CGO_ENABLED": "0"}
    total = len(_ask([go, "list", "-deps", package], module, env).split())
    flags = ["-trimpath", "-tags", "osusergo,grpcnotrace", "-ldflags", f"-s -w {_VERSION_FLAG}"]
    with Work(what, report, total) as work:
        work.run(
            [go, "build", "-v", *flags, "-o", str(to), package],
            cwd=module,
            env=env,
            counts=lambda line: "/" in line or line.isidentifier(),
        )


def _copy_scripts(go: str, module: Path, made: Path) -> None:
    """The two scripts of the Python host, from the folder of the SDK's module."""
    answer = _ask([go, "list", "-m", "-json", _SDK], module)
    try:
        python = Path(json.loads(answer)["Dir"]) / "python"
        for script in ("cmd/pulumi-language-python-exec", "dist/pulumi-resource-pulumi-python"):
            shutil.copyfile(python / script, made / Path(script).name)
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(f"the scripts of {_SDK} are not where they were ({error})") from error


def _ask(arguments: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """What a short go command prints; nothing when it fails."""
    try:
        done = subprocess.run(
            arguments, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
