"""Leases held for rollouts, over any number of servers."""
