"""Procedures: state machines that are remembered, and stepped as data."""
