"""Search in memory: exact, and every restriction is applied before the best are chosen."""
