"""Grants: what of a memory somebody else may read, how it is shown to them, and what they were shown."""
