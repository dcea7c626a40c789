"""Mirrors: adapters that keep copies of records with a vendor, and the registry that finds them by URL."""
