"""Every error caraml raises, under CaramlError.

An error of a blocking call names the address and what was waited for. Each is also the built-in error a
program would catch for it (TimeoutError, ValueError, ...).
"""

from caraml.service_env import CaramlError as CaramlError  # defined in a module without imports
from caraml.service_env import ServiceVariableError as ServiceVariableError


class ZmqTimeoutError(CaramlError, TimeoutError):
    """A blocking call reached its deadline. `address`, `waited_for`, `seconds`: where, for what, how long."""

    def __init__(
        self, address: str = "", waited_for: str = "an answer", seconds: float | None = None
    ) -> None:
        after = "" if seconds is None else f" for {seconds:g} s"
        super().__init__(f"{address or 'socket'}: waited{after} for {waited_for}")
        self.address = address
        self.waited_for = waited_for


class PeerLostError(ZmqTimeoutError, ConnectionError):
    """The peer stopped answering heartbeats or went away while a call waited for it.

    A ZmqTimeoutError, because what was waited for cannot come any more: there is no use in waiting out the
    rest.
    """


class AuthenticationError(CaramlError, ConnectionError):
    """A peer was refused, or refuses us: no key, an unknown key, another mechanism, or not ZeroMQ at all."""


class AddressError(CaramlError, ValueError):
    """An address, host, port or service that cannot be understood."""


class AddressInUseError(CaramlError, OSError):
    """Another socket is bound to the address."""


class SocketError(CaramlError, OSError):
    """ZeroMQ refused an operation; the message says which and on what address."""


class ClosedError(CaramlError, ValueError):
    """The socket is closed."""


class ConcurrentUseError(CaramlError, RuntimeError):
    """Two threads used one socket at the same time; give each thread its own."""


class ForkedError(CaramlError, RuntimeError):
    """A socket made before a fork was used in the child; make it in the child."""


class EncodeError(CaramlError, TypeError):
    """The value cannot be sent; the message says where in it and what would do."""


class MessageTooLargeError(EncodeError, ValueError):
    """The message is over a limit of the sender, so every receiver with the same limits would refuse it."""


class MalformedMessageError(CaramlError, ValueError):
    """A received message is not of the expected kind, or is over a limit."""


class UnsignedPickleError(MalformedMessageError):
    """A pickle that is not signed with our key: not loaded."""


class RemoteError(CaramlError):
    """The server answered that it could not: its handler raised, or it could not read the request."""


class PickleRefusedError(CaramlError, ValueError):
    """Pickle was asked for where anybody could send code to run."""


class KeyFileError(CaramlError, OSError):
    """A key folder is missing, incomplete, or readable by others."""


class SharedMemoryError(CaramlError, OSError):
    """A name no longer leads to shared memory: its owner ended, or is not on this host."""
