"""Keeping a memory in shape: its index, its size, its copies."""
