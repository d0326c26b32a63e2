"""Rules of commands and images, and of texts that an operating system can pass to a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from symphony.plan.names import quoted
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.location import Location
from symphony.spec.setting import Setting, explicit_settings

# Linux refuses one argument or variable longer than this (MAX_ARG_STRLEN), with its terminating NUL.
MAX_TEXT = 131_071


def processes_have_a_command(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        path = path_of(group, process)
        if target.starts == "image":
            if not (process.image or (group and group.image) or spec.image or target.defaults.get("image")):
                yield Problem(
                    f"{path} has no image, and {target.backend} needs an image to start it",
                    'set image="...", or a default with symphony:image',
                    (process.where,),
                )
        elif not process.command and not process.cmds:
            what = "args but no command" if process.args else "no command"
            yield Problem(
                f"{path} has {what}, and {target.backend} needs a command to start it",
                'set command="python", args=["-u", "program.py"], or cmds=["shell line", ...]',
                (process.where,),
            )
        elif process.command and not process.command[0]:
            remedy = 'set it to a program, such as command="python"'
            yield Problem(f"{path} has an empty command", remedy, (process.at("command"),))


def commands_can_start(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        if reason := target.unstartable.get(path_of(group, process)):
            program = (process.command or ("",))[0]
            remedy = _remedy(program, "check the command's spelling, PATH and permissions")
            if program.startswith("~"):
                remedy = "no shell expands it: use os.path.expanduser in your program"
            yield Problem(
                f"{path_of(group, process)} cannot start {quoted(program)}: {reason}",
                remedy,
                (process.at("command"),),
            )


def _remedy(path: str, otherwise: str) -> str:
    """Return the remedy for a path that does not exist: one with a `$` was written for a shell."""
    return "no shell expands it: use os.path.expandvars in your program" if "$" in path else otherwise


def _all_texts(spec: ExperimentSpec) -> Iterator[tuple[str, str, str, Location]]:
    """Yield (owner, setting, text, line) for every text that a process gets."""
    for owner_name, owner in spec.owners():
        for setting, value in explicit_settings(owner):
            for part, text in _parts(setting, value):
                yield owner_name, part, text, owner.at(part)


def _parts(setting: Setting, value: Any) -> Iterator[tuple[str, str]]:
    """Yield (setting, text) for every text of a setting; that of a variable is `env NAME`, `NAME=value`."""
    if setting.name == "env":
        yield from ((f"env {name}", f"{name}={text}") for name, text in value.items())
    elif setting.keyword and isinstance(value, (str, tuple)):
        texts = cast("tuple[Any, ...]", (value,) if isinstance(value, str) else value)
        yield from ((setting.name, text) for text in texts if isinstance(text, str))


def texts_are_passable(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for owner_name, setting, text, where in _all_texts(spec):
        size = len(text.encode("utf-8", "surrogatepass"))
        # tmux and Slurm write shell lines to a script, which has no such limit; Kubernetes has its own rule.
        if size > MAX_TEXT and setting not in ("cmds", "preamble_cmds"):
            what = f"{setting} of {owner_name} has {size} bytes, more than the {MAX_TEXT} that Linux allows"
            yield Problem(what, "write the text to a file and pass the file's name", (where,))
        if setting == "start_dir" and text in target.unreadable:
            what = f"{owner_name} cannot start in {quoted(text)}: {target.unreadable[text]}"
            yield Problem(what, _remedy(text, "correct start_dir, or create that folder"), (where,))


def code_exists(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for text in owner.code:
            if (code := spec.code_files.get(text)) is not None and code.trouble:
                yield Problem(
                    f"code={quoted(text)} of {owner_name} cannot be used: {code.trouble}",
                    _remedy(text, "name a file, a folder or a glob, relative to the project's folder"),
                    (owner.at("code"),),
                )


def files_are_readable(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    yield from _files("secrets", "secret file", spec.secrets, spec, target)
    yield from _files("configs", "config file", spec.configs, spec, target)


def _files(
    setting: str, kind: str, files: tuple[str, ...], spec: ExperimentSpec, target: Target
) -> Iterator[Problem]:
    by_name: dict[str, str] = {}
    for file in files:
        if file in target.unreadable:
            yield Problem(
                f"the {kind} {quoted(file)} cannot be read: {target.unreadable[file]}",
                _remedy(file, "check its path and permissions"),
                (spec.at(setting),),
            )
        name = file.rpartition("/")[2]
        if by_name.setdefault(name, file) != file:
            yield Problem(
                f"two {kind}s are called {quoted(name)}: {by_name[name]} and {file}",
                "rename one of them: both are put into the same folder",
                (spec.at(setting),),
            )
