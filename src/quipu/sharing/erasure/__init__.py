"""Erasure on request: here, at everybody who was shown it, and of what others lent."""
