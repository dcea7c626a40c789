"""Canonical bytes, keys and signatures."""
