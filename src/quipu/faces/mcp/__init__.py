"""MCP: memory as tools, as resources and as an extension, for hosts that speak the Model Context Protocol."""
