"""How long generated tests may take: as long as a busy machine needs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is slow, which says nothing about the code.
settings.register_profile("symphony", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("symphony")
