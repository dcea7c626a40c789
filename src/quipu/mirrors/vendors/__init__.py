"""Adapters for other products, and the process of its own in which a product's package runs."""
