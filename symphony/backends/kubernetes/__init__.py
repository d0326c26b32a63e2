"""The Kubernetes backend: experiments as pods and services."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.kubernetes import access, expand, observe, prerequisites
    from symphony.backends.observe import Observer
    from symphony.backends.registry import Prerequisites

    _MODULES: tuple[Expander, Observer, Access, Prerequisites] = (expand, observe, access, prerequisites)
