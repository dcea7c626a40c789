"""Who asks, in which tenant, with which permissions and limits, how fast and how much."""
