"""The old home of SymphonyParser: programs for the original Symphony import it from here."""

from symphony.classic.parser import SymphonyParser as SymphonyParser

__all__ = ["SymphonyParser"]
