"""What a plan was made from: declared code, images, the program; waits until one of these files changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from symphony.components.inputs import code_files
from symphony.content import digests
from symphony.engine.workspace import Workspace, config_file
from symphony.operations.plan import Planned
from symphony_docker import context

# Milliseconds without a change before a change counts; and after which the files are compared anyway, for
# what came while nobody was watching, or what the file system does not tell.
_QUIET = 300
_LOOK = 3000


@dataclass(frozen=True)
class Sources:
    """The files of a plan.

    code:    texts of `code=`.
    images:  what each of them is built from, as its resource has it.
    program: absolute paths.
    state:   file -> its digest, or when it changed.
    """

    place: Workspace
    stack: str
    code: tuple[str, ...]
    images: tuple[Mapping[str, Any], ...]
    program: tuple[str, ...]
    state: Mapping[str, str]

    def now(self) -> Sources:
        """The same files as they are now."""
        declared = code_files.files_of(self.code, self.place.folder, self.stack)
        state = {name: digest for each in declared.values() for name, digest in each.files.items()}
        for image in self.images:
            state |= _of_image(
                image, context.read(context.source_of(image), look_for_secrets=False).digests, self.place
            )
        return replace(self, state={**state, **_times(self.program)})

    def after(self, planned: Planned) -> Sources:
        """The files of the plan that these led to."""
        return of(self.place, planned)

    def wait(self) -> tuple[Sources, tuple[str, ...]]:
        """Waits until a file is another than in `state`: the files as they are then, and which differ."""
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
            now = self.now()
            if names := digests.changed_names(self.state, now.state):
                return now, tuple(dict.fromkeys(_named(name, self.place) for name in names))
        raise KeyboardInterrupt


def of(place: Workspace, planned: Planned) -> Sources:
    """The files that a plan was made from, as they were then."""
    images = tuple(image["inputs"] for image in planned.plan["images"])
    dockerfiles = [str(Path(image["context"], image["dockerfile"])) for image in images]
    further = [str(place.folder / "Pulumi.yaml"), str(config_file(place, planned.stack)), *dockerfiles]
    code = {text: None for process in planned.plan["processes"] for text in process["code"]}
    program = tuple(dict.fromkeys([*planned.program, *further]))
    built = {image["parts"]["files"]: image for image in images}
    state: dict[str, str] = {}
    for digest, files in planned.code.items():
        state |= _of_image(built[digest], files, place) if digest in built else files
    state |= {**_times(further), **planned.program}
    return Sources(place, planned.stack, tuple(code), images, program, state)


def _of_image(image: Mapping[str, Any], files: Mapping[str, str], place: Workspace) -> dict[str, str]:
    """What its context has, by the names that declared code would have."""
    return {_named(os.path.join(image["context"], name), place): files[name] for name in files}  # noqa: PTH118


def _named(path: str, place: Workspace) -> str:
    return os.path.relpath(place.folder / path, place.folder)


def _times(files: Iterable[str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for file in files:
        with suppress(OSError):
            result[file] = str(Path(file).stat().st_mtime_ns)
    return result
