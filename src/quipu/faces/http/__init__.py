"""The plumbing under every face that speaks HTTP: ids, logs, limits, credentials, problems, metrics, the server."""
