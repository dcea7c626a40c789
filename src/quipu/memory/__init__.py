"""Keeps, finds, changes and takes away records."""
