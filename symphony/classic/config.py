"""SymphonyConfig and AddressBook: a script's settings, and the addresses of services, as in the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

from symphony.errors import UserError
from symphony.plan.plan import PlannedService
from symphony.plan.services import variables
from symphony.spec.setting import strict_text

Handler = Callable[[Any], Any]


class SymphonyConfig:
    """The settings of a script; SymphonyConfig() always returns the same object.

    Attributes:
        username: The prefix of the names of experiments.
        experiment_folder: The folder below which each launched experiment is saved.

    Example:
        SymphonyConfig().set_username("ada")
    """

    _instance: ClassVar[SymphonyConfig | None] = None

    username: str | None
    experiment_folder: str | None
    _handlers: dict[str, Handler]

    def __new__(cls) -> Self:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls.reset()
        return cls._instance  # pyright: ignore[reportReturnType]

    @classmethod
    def reset(cls) -> None:
        """Forget every setting and handler."""
        settings = vars(cls())
        settings.clear()
        settings.update(username=None, experiment_folder=None, _handlers={})
        cls().register_handler("username", lambda name: strict_text(name, "username"))
        cls().register_handler("experiment_folder", lambda folder: strict_text(folder, "experiment_folder"))

    def set_username(self, name: str) -> None:
        """Put this name before the names of experiments: SymphonyConfig().set_username("ada").

        Raises:
            UserError: The name is not text.
        """
        self.update({"username": name})

    def set_experiment_folder(self, folder: str | Path) -> None:
        """Save each launched experiment below this folder: SymphonyConfig().set_experiment_folder("~/runs").

        Raises:
            UserError: The folder is not a path.
        """
        self.update({"experiment_folder": folder})

    def register_handler(self, field: str, handler: Handler) -> None:
        """Add a field whose values update() converts with a function.

        Args:
            field: The name of the field.
            handler: Takes the value given to update(), and returns the value to keep.

        Raises:
            UserError: The field has a handler or is the name of a method, or the handler is not a function.

        Example:
            SymphonyConfig().register_handler("retries", int)
        """
        if not callable(handler):
            raise UserError(
                f'the handler of the SymphonyConfig field "{field}" is a {type(handler).__name__}',
                remedy="Pass a function",
            )
        if field in self._handlers or hasattr(type(self), field):
            raise UserError(
                f'"{field}" already has a handler, or is a method of SymphonyConfig',
                remedy="Give the field another name",
            )
        self._handlers[field] = handler

    def update(self, settings: Mapping[str, Any]) -> None:
        """Set several fields: SymphonyConfig().update({"username": "ada"}).

        Args:
            settings: The value of each field.

        Raises:
            UserError: A field is unknown; then none is set. Or a value is not valid; then only the fields
                before it are set.
        """
        for field in settings:
            if field not in self._handlers:
                raise UserError(
                    f'SymphonyConfig has no field "{field}"',
                    remedy=f"The fields are: {', '.join(self._handlers)}",
                )
        for field, value in settings.items():
            setattr(self, field, self._handlers[field](value))

    def load_config_file(self, path: str | Path) -> None:
        """Set the fields in a YAML or JSON file: SymphonyConfig().load_config_file("symphony.yaml").

        Args:
            path: The file.

        Raises:
            UserError: The file cannot be read or has no fields, or a field is unknown or its value not valid.
        """
        import yaml

        file = Path(path).expanduser()
        try:
            settings = yaml.safe_load(file.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            what = f"the config file cannot be read: {' '.join(str(error).split())}"
            raise UserError(what, where=str(file)) from error
        if not isinstance(settings, dict):
            raise UserError(
                "the config file has no settings", where=str(file), remedy="Write it as `field: value` lines"
            )
        self.update(settings)  # pyright: ignore[reportUnknownArgumentType]

    def prefixed(self, name: str) -> str:
        """Return the name of an experiment with the username as prefix, unless it already has that prefix.

        Example:
            SymphonyConfig().prefixed("rl")
        """
        prefix = f"{self.username}-" if self.username else ""
        return name if name.startswith(prefix) else f"{prefix}{name}"


class Entry(TypedDict):
    """The address of a service."""

    host: str
    port: int


class AddressBook:
    """The addresses of services, and the variables that tell a process about them.

    Args:
        entries: The first services, by name: AddressBook({"ps": {"host": "10.0.0.7", "port": 7001}}).

    Example:
        book = AddressBook()
        book.add_entry("replay-server", "10.0.0.7", 7001)
        subprocess.run(["python", "agent.py"], env={**os.environ, **book.dump()})
    """

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self.entries: dict[str, Entry] = dict(entries or {})

    def add_entry(self, name: str, host: str, port: int) -> None:
        """Add a service: book.add_entry("replay-server", "10.0.0.7", 7001).

        Args:
            name: The name of the service; an earlier entry with this name is replaced.
            host: The host on which it listens.
            port: The port on which it listens.
        """
        self.entries[name] = {"host": host, "port": port}

    def dump(self) -> dict[str, str]:
        """Return the variables SYMPH_<SERVICE>_HOST, _PORT and _ADDR of every service."""
        return variables(
            tuple(
                PlannedService(name=name, host=entry["host"], port=entry["port"], path="", exposed=False)
                for name, entry in self.entries.items()
            )
        )
