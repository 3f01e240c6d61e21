"""Action spaces: what an agent may do in a domain, how it is told, how its answer is read."""
