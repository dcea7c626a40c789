"""Text into vectors: a model on this machine, or an endpoint."""
