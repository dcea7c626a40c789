"""Quipu's own REST API, under /quipu/v1: what memorywire's binding has no word for."""
