"""The vendors' real packages and servers, each in an environment that `make vendors` prepared."""
