"""What recall finds, beside simple methods: `python -m bench.recall`."""
