"""One memory for every agent."""
