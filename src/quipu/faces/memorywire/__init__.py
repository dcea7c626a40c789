"""memorywire: the published schemas and the bodies that mirror them."""
