"""The driver of a server."""
