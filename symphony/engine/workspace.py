"""Finds the Pulumi project of a folder, reads its stacks' settings, and creates stacks."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from symphony import files, paths
from symphony.engine import binary, environment
from symphony.engine.state import file_store, locks
from symphony.errors import SymphonyError, UserError

DEADLINE = 60.0
DEFAULT_PROJECT = "symphony"
_FILES = ("Pulumi.yaml", "Pulumi.yml")
_STACK = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")
_PROJECT = re.compile(r"(?!\.+$)[A-Za-z0-9_.-]{1,100}")


class Workspace(msgspec.Struct, frozen=True):
    """A folder with a Pulumi.yaml: where the engine runs."""

    folder: Path
    project: str
    config_folder: Path
    main: str = ""
    virtualenv: str | None = None
    config: Mapping[str, Any] | None = None
    hidden: bool = False

    @property
    def program(self) -> Path:
        """The file of the program."""
        main = self.folder / self.main
        return main / "__main__.py" if main.is_dir() else main


class Secret(msgspec.Struct, frozen=True):
    """An encrypted setting, whose value is not read."""


def find(start: Path | None = None) -> Workspace | None:
    """Return the project of a folder, or of the nearest one above it that has a Pulumi.yaml."""
    try:
        folder = (start or Path.cwd()).absolute()
    except FileNotFoundError:
        raise UserError("this folder was deleted", remedy="Go to another folder") from None
    for candidate in (folder, *folder.parents):
        for name in _FILES:
            if (candidate / name).is_file():
                return load(candidate / name)
    return None


def find_usable(start: Path | None = None) -> Workspace | None:
    """Return the result of find(), or None if symphony cannot run that project."""
    try:
        return find(start)
    except UserError:
        return None


def require(start: Path | None = None) -> Workspace:
    """Return the result of find(); raise UserError if there is no project."""
    if (workspace := find(start)) is None:
        raise UserError(
            "found no Pulumi.yaml in this folder or above",
            where=str(start or Path.cwd()),
            remedy="Go to your project, or create one here with `symphony init`",
        )
    return workspace


def load(file: Path) -> Workspace:
    """Return the project of a Pulumi.yaml, or raise UserError if symphony cannot run it."""
    if file.name != _FILES[0]:
        raise UserError(
            f"the project file is called {file.name}; symphony reads {_FILES[0]}",
            where=str(file),
            remedy="Rename it, and each Pulumi.STACK.yml beside it, to .yaml",
        )
    content = _yaml(file)
    runtime = content.get("runtime")
    detail = cast("dict[str, Any]", runtime) if isinstance(runtime, dict) else {"name": runtime}
    if (language := detail.get("name")) != "python":
        what = f"{file.name} sets no runtime"
        if language:
            what = f"{file.name} sets runtime to {language!r}, but symphony runs only Python programs"
        remedy = "Set `runtime: python`, or go to the folder of a Python project"
        raise UserError(what, where=str(file), remedy=remedy)
    name = project_name(content.get("name"), file)
    options: dict[str, Any] = detail.get("options") or {}
    virtualenv = options.get("virtualenv")
    # `config: <folder>` is the old spelling of stackConfigDir.
    config = content.get("config")
    config_dir = content.get("stackConfigDir") or (config if isinstance(config, str) else "")
    return Workspace(
        folder=file.parent,
        project=name,
        config_folder=file.parent / str(config_dir or ""),
        main=str(content.get("main") or ""),
        virtualenv=_virtualenv(file.parent, str(virtualenv)) if virtualenv else None,
        config=cast("dict[str, Any]", config) if isinstance(config, dict) else None,
    )


def _virtualenv(folder: Path, name: str) -> str:
    """Return the virtualenv that a project names; a copy of its code may lack it: that of the original."""
    project = None if (folder / name).exists() else paths.project_of_copy(folder)
    return str(Path(project, name)) if project else name


def require_virtualenv(workspace: Workspace) -> None:
    """Raise UserError if the project names a virtualenv that is missing."""
    if workspace.virtualenv is None:
        return
    folder = workspace.folder / workspace.virtualenv
    if not (folder / "bin" / "python").exists():
        raise UserError(
            f"Pulumi.yaml names the virtualenv {workspace.virtualenv}, which is missing",
            where=str(folder),
            remedy="Create it with symphony installed, or remove that line to use symphony's own Python",
        )


def private_workspace(project: str, stack: str, *, main: Path | None = None) -> Workspace:
    """Return a private project folder for a stack without one; its program runs in the folder `main`."""
    folder = paths.private_folder(paths.home() / "projects" / paths.store_id() / project / stack)
    text = f"name: {project}\nruntime: python\ndescription: made by symphony\n"
    if main is not None:
        text += f"main: {json.dumps(str(main))}\n"
    file = folder / "Pulumi.yaml"
    if not file.exists() or file.read_text() != text:
        files.replace(file, text.encode())
    return Workspace(folder=folder, project=project, config_folder=folder, hidden=True)


def for_stack(name: file_store.StackName) -> Workspace:
    """Return the project of this folder if it has the settings of the stack, else a hidden folder.

    The engine would write a new settings file for a sweep, a trial or a stack of another folder.
    """
    here = find_usable()
    if here is not None and here.project == name.project and config_file(here, name.stack).is_file():
        return here
    return private_workspace(name.project, name.stack)


def project_name(name: object, where: Path) -> str:
    """Return the name of a project; raise UserError if Pulumi does not accept it."""
    if not isinstance(name, str) or not _PROJECT.fullmatch(name):
        raise UserError(
            f"Pulumi does not accept the project name {name!r}",
            where=str(where),
            remedy="Use letters, digits, `-`, `_` and `.`, at most 100",
        )
    return name


def stack_name(text: str, workspace: Workspace | None) -> file_store.StackName:
    """Return `rl`, `project/rl` or `organization/project/rl` as a full name.

    The default project is that of the workspace.
    """
    *above, stack = text.split("/")
    project = above[-1] if above else (workspace.project if workspace else DEFAULT_PROJECT)
    if len(above) > 2 or not _STACK.fullmatch(stack) or not _PROJECT.fullmatch(project):
        raise UserError(
            f"{text!r} is not a valid name of a stack",
            remedy="Use letters, digits, `-`, `_` and `.`, at most 100, not starting with `-`",
        )
    return file_store.StackName(project, stack, above[0] if len(above) == 2 else "organization")


def config_file(workspace: Workspace, stack: str) -> Path:
    """Return the file with the settings of a stack."""
    return workspace.config_folder / f"Pulumi.{stack}.yaml"


def configured_stacks(workspace: Workspace) -> set[str]:
    """Return the stacks that have settings."""
    files = workspace.config_folder.glob("Pulumi.*.yaml")
    return {file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files}


def stack_config(workspace: Workspace, stack: str) -> dict[str, Any]:
    """Return the settings of a stack over those of its project; an encrypted value is a Secret."""
    values: dict[str, Any] = {}
    for key, setting in (workspace.config or {}).items():
        full_key = key if ":" in key else f"{workspace.project}:{key}"
        if (value := _project_value(setting)) is not None:
            values[full_key] = value
    file = config_file(workspace, stack)
    # Reading refuses a named pipe (FIFO) here, for which the engine would wait without end.
    if file.exists():
        own = _yaml(file).get("config")
        values.update(cast("dict[str, Any]", own) if isinstance(own, dict) else {})
    return {key: Secret() if _is_secure(value) else value for key, value in values.items()}


def _project_value(setting: Any) -> Any:
    """Return the value of a project's setting: a plain value, or a mapping with its type and default."""
    fields = cast("dict[str, Any]", setting) if isinstance(setting, dict) else {}
    if {"value", "default", "type"} & fields.keys():
        return fields.get("value", fields.get("default"))
    return cast("Any", setting)


def _is_secure(value: Any) -> bool:
    return isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["secure"]


def create_stack(workspace: Workspace, stack: str) -> bool:
    """Create a stack; return False if it exists."""
    if file_store.is_files() and file_store.exists(file_store.StackName(workspace.project, stack)):
        return False
    # A creation that was killed, or failed on a full disk, leaves a lock.
    locks.recover(workspace.project, stack)
    done = pulumi(workspace, ["stack", "init", f"--stack={stack}", "--no-select"])
    if done.returncode and "already exists" in done.stderr:
        return False
    if done.returncode:
        from symphony.engine import errors

        raise errors.from_text(done.stderr or done.stdout, stack=stack, project=workspace.project)
    return True


def has_secrets_provider(workspace: Workspace, stack: str) -> bool:
    """Return whether the settings of a stack name a secrets provider, such as a cloud's key service."""
    file = config_file(workspace, stack)
    return file.is_file() and "secretsprovider" in _yaml(file)


def pulumi(
    workspace: Workspace, arguments: list[str], *, deadline: float = DEADLINE
) -> subprocess.CompletedProcess[str]:
    """Run a short command of the engine; the caller checks its exit code."""
    engine = binary.require()
    file_store.prepare()
    try:
        return subprocess.run(
            [engine.pulumi, *arguments, "--non-interactive", "--color=never"],
            cwd=workspace.folder,
            env=environment.for_engine(extra=environment.python()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline,
            umask=0o077,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SymphonyError(
            f"`pulumi {' '.join(arguments[:2])}` did not end within {deadline:.0f} s",
            where=paths.store_url(),
            remedy="Check that the state store answers (for a refresh, the cluster too), and try again",
        ) from error
    except OSError as error:
        raise binary.not_started(engine.pulumi, error.strerror) from error


def load_yaml(text: str) -> Any:
    """Return the content of a settings file as the engine reads it, in YAML 1.2: off and 12:30 are texts.

    >>> load_yaml("{a: off, b: 12:30, c: true, d: 64}")
    {'a': 'off', 'b': '12:30', 'c': True, 'd': 64}
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML reads YAML 1.1."""

    def truth(loader: Any, node: Any) -> Any:
        is_text = node.value.lower() in ("yes", "no", "on", "off")
        return node.value if is_text else loader.construct_yaml_bool(node)

    def number(loader: Any, node: Any) -> Any:
        if ":" in node.value:
            return node.value
        is_int = node.tag.endswith(":int")
        return loader.construct_yaml_int(node) if is_int else loader.construct_yaml_float(node)

    Loader.add_constructor("tag:yaml.org,2002:bool", truth)
    Loader.add_constructor("tag:yaml.org,2002:int", number)
    Loader.add_constructor("tag:yaml.org,2002:float", number)
    return yaml.load(text, Loader)


def dump_yaml(content: Any) -> str:
    """Return the text of a settings file with each text in quotes, so that the engine reads 1e3 as a text."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """PyYAML leaves out quotes that YAML 1.2 needs."""

    def quoted(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')

    Dumper.add_representer(str, quoted)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False)


def _yaml(file: Path) -> dict[str, Any]:
    import yaml

    try:
        content: Any = load_yaml(files.read_source(file).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file.name} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}",
            where=str(file),
            remedy="Make it a readable file in UTF-8",
        ) from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f"{file}:{mark.line + 1}" if mark is not None else str(file)
        what = f"{file.name} is not YAML{f': {problem}' if problem else ''}"
        raise UserError(what, where=where, remedy="Correct that line") from error
    if not isinstance(content, dict | None):
        remedy = "Write lines such as `name: value` in the file"
        raise UserError(f"{file.name} is not a mapping", where=str(file), remedy=remedy)
    return cast("dict[str, Any]", content or {})
