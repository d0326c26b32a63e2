"""The Slurm backend: an experiment is a job, a process is a step, a service is a port of its node."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.observe import Observer
    from symphony.backends.registry import Prerequisites
    from symphony.backends.slurm import access, expand, observe, prerequisites

    _MODULES: tuple[Expander, Observer, Access, Prerequisites] = (expand, observe, access, prerequisites)
