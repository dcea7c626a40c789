"""Benchmarks of Quipu: recall quality, latency, throughput and size, beside memorywire in the same run."""
