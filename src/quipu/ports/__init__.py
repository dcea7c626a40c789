"""What the product needs from the outside: protocols and the types in their signatures, no code."""
