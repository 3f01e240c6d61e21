"""Finding installed plugins, and what they register."""
