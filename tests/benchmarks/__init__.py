"""The benchmark table of `make bench`: each row measures both sides interleaved in one run."""
