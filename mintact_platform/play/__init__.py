"""A person in the agent's place: the same lease, action space, coordinates and judge."""
