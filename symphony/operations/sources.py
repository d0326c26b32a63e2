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

# Milliseconds without further events after which a change counts, and between comparisons without an event:
# for changes before the watch began, and on file systems without events.
_QUIET = 300
_LOOK = 2000


@dataclass(frozen=True)
class Sources:
    """The files of a plan.

    Attributes:
        code: Texts of `code=`.
        images: The inputs of the image resources.
        program: Absolute paths.
        state: file -> its digest, or its time of change.
    """

    place: Workspace
    stack: str
    code: tuple[str, ...]
    images: tuple[Mapping[str, Any], ...]
    program: tuple[str, ...]
    state: Mapping[str, str]

    def now(self) -> Sources:
        """Return the files in their current state."""
        declared = code_inputs.files_of(self.code, self.place.folder, self.stack)
        state = {name: digest for group in declared.values() for name, digest in group.files.items()}
        for image in self.images:
            state |= _of_image(
                image, context.read(context.source_of(image), look_for_secrets=False).digests, self.place
            )
        return replace(self, state={**code.brief(state), **_times(self.program)})

    def after(self, planned: Planned) -> Sources:
        """Return the files of a later plan."""
        return of(self.place, planned)

    def wait(self, tick: Callable[[], None]) -> tuple[Sources, tuple[str, ...]]:
        """Wait until files differ from `state`; return the files as they are then, and the changed names.

        Args:
            tick: Called every two seconds.
        """
        # Only `up --watch` needs it.
        from watchfiles import watch

        folders = {(self.place.folder / name).parent for name in self.state}
        places = [str(folder) for folder in folders if folder.is_dir()]
        for _ in watch(
            *places,
            recursive=False,
            watch_filter=None,
            step=_QUIET,
            rust_timeout=_LOOK,
            yield_on_timeout=True,
        ):
            tick()
            now = self.now()
            if names := digests.changed_names(self.state, now.state):
                return now, tuple(dict.fromkeys(_named(name, self.place) for name in names))
        raise KeyboardInterrupt


def of(place: Workspace, planned: Planned) -> Sources:
    """Return the files of a plan, in the state of that plan."""
    images = tuple(image["inputs"] for image in planned.plan["images"])
    dockerfiles = [str(Path(image["context"], image["dockerfile"])) for image in images]
    further = [str(place.folder / "Pulumi.yaml"), str(config_file(place, planned.stack)), *dockerfiles]
    texts = {text: None for process in planned.plan["processes"] for text in process["code"]}
    program = tuple(dict.fromkeys([*planned.program, *further]))
    built = {image["parts"]["files"]: image for image in images}
    state: dict[str, str] = {}
    for digest, files in planned.code.items():
        state |= code.brief(_of_image(built[digest], files, place) if digest in built else files)
    state |= {**_times(further), **planned.program}
    return Sources(place, planned.stack, tuple(texts), images, program, state)


def _of_image(image: Mapping[str, Any], files: Mapping[str, str], place: Workspace) -> dict[str, str]:
    """Return the files of the context of an image, by the names that declared code would have."""
    return {_named(os.path.join(image["context"], name), place): files[name] for name in files}  # noqa: PTH118


def _named(path: str, place: Workspace) -> str:
    return os.path.relpath(place.folder / path, place.folder)


def _times(files: Iterable[str]) -> dict[str, str]:
    times: dict[str, str] = {}
    for file in files:
        with suppress(OSError):
            times[file] = str(Path(file).stat().st_mtime_ns)
    return times
