"""Kubernetes' quantities of cpu and memory: 0.5, 500m, 2, 1e3, 512Mi."""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"(\d+\.?\d*|\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?", re.ASCII)
_SCALE = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
# The remedy for an invalid quantity.
QUANTITY_REMEDY = "write a quantity as Kubernetes does: 0.5, 500m, 2, 512Mi, 4Gi"
# A longer quantity is treated as a mistake.
_MAX_LENGTH = 40
_MAX_POWER = 60


def amount(quantity: object) -> Decimal | None:
    """Return a quantity as a number; None if it is invalid.

    >>> amount("500m") < amount(1) < amount("1E3") < amount("1Ki")
    True
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None or isinstance(quantity, bool) or len(str(quantity)) > _MAX_LENGTH:
        return None
    number, suffix, power = match.groups()
    if power is not None:
        return Decimal(number) * Decimal(10) ** max(-_MAX_POWER, min(int(power), _MAX_POWER))
    return Decimal(number) * _SCALE[suffix or ""]
