"""Sharing: an owner lets another agent read a slice of memory, sees what was read, and takes it back."""
