"""Held writes and decisions are sent to other machines."""
