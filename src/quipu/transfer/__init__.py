"""Whole memories in and out of files and of other products."""
