"""AddressBook: the variables of services, as in the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from symphony.plan.plan import PlannedService
from symphony.plan.services import variables


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
