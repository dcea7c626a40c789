"""Which tools a client is shown. Chosen by whoever sets the client up, cut down by the credential's scopes."""

from __future__ import annotations

PROFILES = ("readonly", "default", "admin", "graph", "anthropic", "chatgpt")
