"""Public contracts in front of one service. A face translates; it never decides."""
