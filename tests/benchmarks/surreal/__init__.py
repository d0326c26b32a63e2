"""What `make bench` prints of examples/surreal."""

from tests.benchmarks.surreal import learning, throughput


def main() -> None:
    """Both tables."""
    throughput.main()
    learning.main()
