"""The two dynamic providers as Pulumi unpickles them; they leave the work to sessions and windows.

Module path and class names lie in the state of every user: never move or rename them.
"""

from __future__ import annotations

from pulumi.dynamic import ResourceProvider


class SessionProvider(ResourceProvider):
    """CRUD of a Session resource."""

    serialize_as_secret_always = False


class WindowProvider(ResourceProvider):
    """CRUD of a Window resource."""

    serialize_as_secret_always = False
