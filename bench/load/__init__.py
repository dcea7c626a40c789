"""The server under load, by wrk on loopback."""
