"""AddressBook: the variables of services as the original wrote them."""

from __future__ import annotations

from symphony.plan.plan import PlannedService
from symphony.plan.services import variables


class AddressBook:
    """Where services are, and the variables that tell a process so.

    book = AddressBook()
    book.add_entry("replay-server", "10.0.0.7", 7001)
    subprocess.run(["python", "agent.py"], env={**os.environ, **book.dump()})
    """

    def __init__(self) -> None:
        self._services: dict[str, PlannedService] = {}

    def add_entry(self, name: str, host: str, port: int) -> None:
        """Note a service; a later entry of the same name takes its place."""
        self._services[name] = PlannedService(name=name, host=host, port=port, path="", exposed=False)

    def dump(self) -> dict[str, str]:
        """SYMPH_<SERVICE>_HOST, _PORT and _ADDR of every service, as symphony sets them in a process."""
        return variables(tuple(self._services.values()))
