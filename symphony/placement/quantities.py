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
    **{sign: Decimal(1000) ** power for power, sign in enumerate("kMGTPE", 1)},
    **{f"{sign}i": Decimal(1024) ** power for power, sign in enumerate("KMGTPE", 1)},
}
# The remedy for an invalid quantity.
WRITE_ONE = "write a quantity as Kubernetes does: 0.5, 500m, 2, 512Mi, 4Gi"
# A longer quantity is treated as a mistake.
_LONGEST = 40
_HIGHEST = 60


def amount(quantity: object) -> Decimal | None:
    """Return a quantity as a number; None if it is invalid.

    >>> amount("500m") < amount(1) < amount("1E3") < amount("1Ki")
    True
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None or isinstance(quantity, bool) or len(str(quantity)) > _LONGEST:
        return None
    number, sign, power = match.groups()
    if power is not None:
        return Decimal(number) * Decimal(10) ** max(-_HIGHEST, min(int(power), _HIGHEST))
    return Decimal(number) * _SCALE[sign or ""]
