"""Experiment, ProcessGroup and Process with the spellings of the original Symphony."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, Unpack

import pulumi

from symphony.components import experiment, process, process_group
from symphony.components.builder import MemberBuilder, MemberSpec
from symphony.components.usage_errors import usage_error
from symphony.plan.names import as_name
from symphony.spec.experiment import ExperimentOptions, GroupOptions, ProcessGroupSpec
from symphony.spec.pod import Effect, Operator
from symphony.spec.process import ProcessOptions, ProcessSpec, Quantity
from symphony.spec.setting import Output
from symphony.spec.shared import Image, Texts


class ClassicProcessOptions(ProcessOptions, total=False):
    """Keywords of a process; standalone is ignored: a process without a group always has its own pod."""

    container_image: str | Image | Output | None
    standalone: bool


class ClassicExperimentOptions(ExperimentOptions, total=False):
    """Keywords of an experiment."""

    container_image: str | Image | Output | None


class ClassicGroupOptions(GroupOptions, total=False):
    """Keywords of a process group."""

    container_image: str | Image | Output | None


def _translated(options: Mapping[str, Any]) -> Any:
    """Return the options with today's spellings."""
    translated = {name: value for name, value in options.items() if name != "standalone"}
    image = translated.pop("container_image", None)
    if image is not None and translated.get("image") is None:
        translated["image"] = image
    return translated


def require_name(kind: str, name: object) -> None:
    """Raise UserError, which is a ValueError, for a name that cannot be mapped to a valid one."""
    if not isinstance(name, str) or not as_name(name) or ":" in name:
        raise usage_error(f"{name!r:.60} is not a valid name of {kind}", 'Use letters, digits, "-" and "_"')


class _Member(MemberBuilder[MemberSpec]):
    """The methods of a process and a group with the keywords of the original."""

    def add_toleration(
        self,
        key: str | None = None,
        operator: Operator | None = None,
        value: str | None = None,
        effect: Effect | None = None,
        toleration_seconds: int | None = None,
        tolerationSeconds: int | None = None,
    ) -> None:
        """Allow nodes with this taint; tolerationSeconds is toleration_seconds."""
        seconds = tolerationSeconds if toleration_seconds is None else toleration_seconds
        super().add_toleration(key, operator, value, effect, seconds)

    def mount_secret(
        self,
        secret_name: str,
        mount_path: str,
        default_mode: int | None = None,
        name: str | None = None,
        defaultMode: int | None = None,
    ) -> None:
        """Mount a Secret of the namespace as files; defaultMode is default_mode."""
        mode = defaultMode if default_mode is None else default_mode
        super().mount_secret(secret_name, mount_path, mode, name)


class Process(_Member[ProcessSpec], process.Process):
    """A symphony.Process with the spellings of the original: container_image=, mem=, bind(), connect()."""

    def __init__(
        self,
        name: str,
        cmds: Texts | None = None,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ClassicProcessOptions],
    ) -> None:
        """Declare a process; symphony.Process says what it takes."""
        require_name("a process", name)
        super().__init__(name, cmds, opts=opts, **_translated(options))

    bind = process.Process.binds
    connect = process.Process.connects
    expose = process.Process.exposes

    def resource_request(
        self, cpu: Quantity | None = None, memory: Quantity | None = None, *, mem: Quantity | None = None
    ) -> None:
        """Set the resource requests of the container; mem is memory."""
        super().resource_request(cpu, mem if memory is None else memory)

    def resource_limit(
        self,
        cpu: Quantity | None = None,
        memory: Quantity | None = None,
        gpu: int | None = None,
        *,
        mem: Quantity | None = None,
    ) -> None:
        """Set the resource limits of the container; mem is memory."""
        super().resource_limit(cpu, mem if memory is None else memory, gpu)


class _Members(process_group.Members):
    """The processes of an experiment or a group, with the spellings of the original."""

    process_class = Process

    def new_process(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        name: str,
        cmds: Texts | None = None,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ClassicProcessOptions],
    ) -> Process:
        """Declare a process in it; symphony.Process says what it takes."""
        process = Process(name, cmds, opts=opts, **options)
        super().add_process(process)
        return process


class ProcessGroup(_Member[ProcessGroupSpec], _Members, process_group.ProcessGroup):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A symphony.ProcessGroup with the spellings of the original."""

    def __init__(
        self, name: str, *, opts: pulumi.ResourceOptions | None = None, **options: Unpack[ClassicGroupOptions]
    ) -> None:
        """Declare a process group; symphony.ProcessGroup says what it takes."""
        require_name("a process group", name)
        super().__init__(name, opts=opts, **_translated(options))


class Experiment(_Members, experiment.Experiment):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A symphony.Experiment with the spellings of the original, which saves and loads itself."""

    group_class = ProcessGroup

    def __init__(
        self,
        name: str,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ClassicExperimentOptions],
    ) -> None:
        """Declare an experiment; symphony.Experiment says what it takes."""
        require_name("an experiment", name)
        super().__init__(name, opts=opts, **_translated(options))

    def new_process_group(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, name: str, *, opts: pulumi.ResourceOptions | None = None, **options: Unpack[ClassicGroupOptions]
    ) -> ProcessGroup:
        """Declare a process group; symphony.ProcessGroup says what it takes."""
        group = ProcessGroup(name, opts=opts, **options)
        super().add_process_group(group)
        return group

    # saving

    def dump_dict(self) -> dict[str, Any]:
        """Return the declaration as plain values.

        Raises:
            UserError: A value in it cannot be saved.
        """
        return self.to_dict()

    def dump_json_str(self) -> str:
        """Return the declaration as JSON; raise the errors of dump_dict()."""
        return json.dumps(self.to_dict(), indent=2)

    def dump_yaml_str(self) -> str:
        """Return the declaration as YAML; raise the errors of dump_dict()."""
        import yaml

        return yaml.safe_dump(self.to_dict(), sort_keys=False)

    def dump_json(self, file: str | Path) -> None:
        """Save the declaration as JSON.

        Raises:
            UserError: A value in it cannot be saved, or the file cannot be written.
        """
        _write(file, self.dump_json_str())

    def dump_yaml(self, file: str | Path) -> None:
        """Save the declaration as YAML; raise the errors of dump_json()."""
        _write(file, self.dump_yaml_str())

    @classmethod
    def load_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the experiment that dump_dict() saved.

        Raises:
            UserError: The values are not a saved experiment.
        """
        return cls.from_dict(data)

    @classmethod
    def load_json_str(cls, text: str) -> Self:
        """Return the experiment in a JSON text; raise the errors of load_yaml_str()."""
        return cls.load_yaml_str(text)

    @classmethod
    def load_yaml_str(cls, text: str) -> Self:
        """Return the experiment in a YAML text, of which JSON is a part.

        Raises:
            UserError: The text is not YAML, or not a saved experiment.
        """
        import yaml

        try:
            return cls.from_dict(yaml.safe_load(text))
        except yaml.YAMLError as error:
            what = f"the saved experiment is not YAML: {' '.join(str(error).split())}"
            raise usage_error(what, "Save it again with dump_yaml() or dump_json()") from None

    @classmethod
    def load_json(cls, file: str | Path) -> Self:
        """Return the experiment in a JSON file; raise the errors of load_yaml()."""
        return cls.load_yaml_str(_read(file))

    @classmethod
    def load_yaml(cls, file: str | Path) -> Self:
        """Return the experiment in a YAML file.

        Raises:
            UserError: The file cannot be read, is not YAML, or is not a saved experiment.
        """
        return cls.load_yaml_str(_read(file))

    dump_json_file, dump_yaml_file = dump_json, dump_yaml
    load_json_file, load_yaml_file = load_json, load_yaml


def _read(file: str | Path) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise usage_error(f"{file} cannot be read: {error}", "Check the path") from None


def _write(file: str | Path, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise usage_error(f"{file} cannot be written: {error}", "Check the path") from None
