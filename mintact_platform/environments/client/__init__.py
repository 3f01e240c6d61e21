"""The other side of a lease: calls that survive lost replies."""
