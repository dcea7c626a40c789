"""Profiles whose tools have a shape of their own."""
