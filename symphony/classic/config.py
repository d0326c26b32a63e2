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
    """The one place of a script's settings: SymphonyConfig() is the same object everywhere.

    SymphonyConfig().set_username("ada")

    username: stands before the names of experiments. experiment_folder: each launched experiment is saved
    below it. A field with a handler of its own holds what the handler returned.
    """

    _only: ClassVar[SymphonyConfig | None] = None

    username: str | None
    experiment_folder: str | None
    _handlers: dict[str, Handler]

    def __new__(cls) -> Self:
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls.reset()
        return cls._only  # pyright: ignore[reportReturnType]

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

        UserError: the name is not text.
        """
        self.update({"username": name})

    def set_experiment_folder(self, folder: str | Path) -> None:
        """Save each launched experiment below this folder: SymphonyConfig().set_experiment_folder("~/runs").

        UserError: the folder is not a path.
        """
        self.update({"experiment_folder": folder})

    def register_handler(self, field: str, handler: Handler) -> None:
        """Let update() pass a field of your own to a function, and keep what that returns.

        SymphonyConfig().register_handler("retries", int)

        field: its name. handler: takes its value.
        UserError: the field has a handler or is the name of a method, or the handler is not a function.
        """
        if not callable(handler):
            raise UserError(
                f'the handler of "{field}" is a {type(handler).__name__}', remedy="Pass a function"
            )
        if field in self._handlers or hasattr(type(self), field):
            raise UserError(
                f'"{field}" already has a handler, or is a method of SymphonyConfig',
                remedy="Give the field another name",
            )
        self._handlers[field] = handler

    def update(self, settings: Mapping[str, Any]) -> None:
        """Make several settings: SymphonyConfig().update({"username": "ada"}).

        settings: {field: value}. UserError: a field is unknown; then none is set.
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
        """Make the settings of a YAML or JSON file: SymphonyConfig().load_config_file("symphony.yaml").

        path: its path. UserError: it cannot be read, or as update().
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
        """Return the name of an experiment with the username before it: SymphonyConfig().prefixed("rl")."""
        prefix = f"{self.username}-" if self.username else ""
        return name if name.startswith(prefix) else f"{prefix}{name}"


class Entry(TypedDict):
    """The address of a service."""

    host: str
    port: int


class AddressBook:
    """The addresses of services, and the variables that tell a process about them.

    book = AddressBook()
    book.add_entry("replay-server", "10.0.0.7", 7001)
    subprocess.run(["python", "agent.py"], env={**os.environ, **book.dump()})

    entries: service -> its host and port, to start with: AddressBook({"ps": {"host": h, "port": p}}).
    """

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self.entries: dict[str, Entry] = dict(entries or {})

    def add_entry(self, name: str, host: str, port: int) -> None:
        """Add a service: book.add_entry("replay-server", "10.0.0.7", 7001).

        name: of the service; a later entry of that name takes its place. host, port: where it listens.
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
