"""What the benchmarks measure of examples/surreal: throughput, and how long it takes to learn."""
