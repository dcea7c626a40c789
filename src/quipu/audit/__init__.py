"""Proof of what happened, outside of the database too, and undoing what one cause did."""
