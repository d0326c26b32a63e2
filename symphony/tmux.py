"""The old home of TmuxCluster: programs for the original Symphony import it from here."""

from symphony.classic.cluster import TmuxCluster as TmuxCluster
