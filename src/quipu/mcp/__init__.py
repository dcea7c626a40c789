"""Quipu over the Model Context Protocol: operations as tools, memory as resources, approval at the client."""
