"""OpenTelemetry: what memory does as spans, metrics and events, and the check that they follow a convention."""
