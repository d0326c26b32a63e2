"""The source files of a plan, for `up --watch`: declared code, images, the program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from symphony.components import code_inputs
from symphony.content import digests
from symphony.engine.workspace import Workspace, config_file
from symphony.operations.plan import Planned
from symphony.plan import code
from symphony_docker import context

# Milliseconds without further events after which a change counts.
_QUIET = 300
# Milliseconds between two comparisons, for changes before the watch and file systems without events.
_PERIOD = 2000


@dataclass(frozen=True)
class Sources:
    """The files of a plan; `state` has the digest, or the time of change, of each file.

    The names of files are relative to `folder`, in which the program runs.
    """

    workspace: Workspace
    folder: Path
    code: tuple[str, ...]
    images: tuple[Mapping[str, Any], ...]
    program: tuple[str, ...]
    state: Mapping[str, str]

    def now(self) -> Sources:
        """Return the files in their current state."""
        declared = code_inputs.files_of(self.code, self.folder)
        state = {name: digest for matched in declared.values() for name, digest in matched.files.items()}
        for image in self.images:
            read = context.read(context.source_of(image), look_for_secrets=False)
            state |= _image_files(image, read.digests, self.folder)
        return replace(self, state={**code.short_digests(state), **_times(self.program)})

    def after(self, planned: Planned) -> Sources:
        """Return the files of a later plan."""
        return from_plan(self.workspace, planned)

    def wait(self, tick: Callable[[], None]) -> tuple[Sources, tuple[str, ...]]:
        """Wait until files differ from `state`; return the new state, and the names of the changed files.

        `tick` is called every two seconds.
        """
        # Only `up --watch` needs it.
        from watchfiles import watch

        folders = {(self.folder / name).parent for name in self.state}
        for _ in watch(
            *(str(folder) for folder in folders if folder.is_dir()),
            recursive=False,
            watch_filter=None,
            step=_QUIET,
            rust_timeout=_PERIOD,
            yield_on_timeout=True,
        ):
            tick()
            now = self.now()
            if names := digests.changed_names(self.state, now.state):
                return now, tuple(dict.fromkeys(_relative(name, self.folder) for name in names))
        # watch() returns only after Ctrl-C.
        raise KeyboardInterrupt


def from_plan(workspace: Workspace, planned: Planned) -> Sources:
    """Return the files of a plan, in the state of that plan."""
    folder = Path(planned.folder)
    images = tuple(image["inputs"] for image in planned.plan["images"])
    dockerfiles = [str(Path(image["context"], image["dockerfile"])) for image in images]
    settings_file = config_file(workspace, planned.stack)
    settings = [str(workspace.folder / "Pulumi.yaml"), str(settings_file), *dockerfiles]
    patterns = {pattern: None for process in planned.plan["processes"] for pattern in process["code"]}
    program = tuple(dict.fromkeys([*planned.program, *settings]))
    built = {image["parts"]["files"]: image for image in images}
    state: dict[str, str] = {}
    for digest, files in planned.code.items():
        state |= code.short_digests(_image_files(built[digest], files, folder) if digest in built else files)
    state |= {**_times(settings), **planned.program}
    return Sources(workspace, folder, tuple(patterns), images, program, state)


def _image_files(image: Mapping[str, Any], files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the files of the context of an image, with paths relative to a folder."""
    return {_relative(os.path.join(image["context"], name), folder): files[name] for name in files}  # noqa: PTH118


def _relative(path: str, folder: Path) -> str:
    return os.path.relpath(folder / path, folder)


def _times(files: Iterable[str]) -> dict[str, str]:
    times: dict[str, str] = {}
    for file in files:
        with suppress(OSError):
            times[file] = str(Path(file).stat().st_mtime_ns)
    return times
