"""The driver of one file."""
