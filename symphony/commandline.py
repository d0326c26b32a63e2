"""SymphonyParser, where programs for the original Symphony import it."""

from symphony.classic.parser import SymphonyParser as SymphonyParser

__all__ = ["SymphonyParser"]
