"""The error classes of caraml, under CaramlError.

Timeouts name the address and what the call waited for. All but RemoteError are also the
built-in error that a program would catch (TimeoutError, ValueError, ...).
"""

from caraml.service_env import CaramlError as CaramlError  # defined in a module without imports
from caraml.service_env import ServiceVariableError as ServiceVariableError


class ZmqTimeoutError(CaramlError, TimeoutError):
    """A blocking call reached its deadline; `address` and `waited_for` say where and for what it waited."""

    def __init__(
        self, address: str = "", waited_for: str = "an answer", seconds: float | None = None
    ) -> None:
        waited = "waited" if seconds is None else f"timed out after waiting {seconds:g} s"
        super().__init__(f"{address or 'socket'}: {waited} for {waited_for}")
        self.address = address
        self.waited_for = waited_for


class PeerLostError(ZmqTimeoutError, ConnectionError):
    """The peer stopped answering heartbeats or went away while a call waited for it.

    It is a ZmqTimeoutError, whose arguments it takes, because the answer cannot come any more: the call
    would only wait for its deadline.
    """


class AuthenticationError(CaramlError, ConnectionError):
    """A handshake failed: no key, an unknown key, another mechanism, or a peer that does not speak ZeroMQ."""


class AddressError(CaramlError, ValueError):
    """An address, host or port that cannot be parsed or used."""


class AddressInUseError(CaramlError, OSError):
    """Another socket is bound to the address."""


class SocketError(CaramlError, OSError):
    """An operation failed in ZeroMQ; the message names the operation and the address."""


class ClosedError(CaramlError, ValueError):
    """The socket is closed."""


class ConcurrentUseError(CaramlError, RuntimeError):
    """Two threads used one socket at the same time; give each thread its own."""


class ForkedError(CaramlError, RuntimeError):
    """A socket that was created before a fork was used in the child; create it in the child."""


class EncodeError(CaramlError, TypeError):
    """The value cannot be sent; the message says why."""


class MessageTooLargeError(EncodeError, ValueError):
    """The message is over a limit of the sender; receivers with the same limits would drop it."""


class MalformedMessageError(CaramlError, ValueError):
    """A received message is not of the expected kind, or is over a limit."""


class UnsignedPickleError(MalformedMessageError):
    """A pickle that is not signed with our key; it was not loaded."""


class RemoteError(CaramlError):
    """The server's handler raised, or the server could not read the request."""


class PickleRefusedError(CaramlError, ValueError):
    """The socket may not use pickle: any peer could send code to run, and there is no key to verify it."""


class KeyFileError(CaramlError, OSError):
    """A key or a key folder is missing, invalid, or open to other users."""


class SharedMemoryError(CaramlError, OSError):
    """Shared memory cannot be read: it was read before, or its owner has ended or runs on another host."""
