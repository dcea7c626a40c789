"""OAP RFC 0010, memory exchange: the host's side on the wire."""
