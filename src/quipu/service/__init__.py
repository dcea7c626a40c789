"""What the product does."""
