"""What OpenTelemetry is told of memory."""
