"""The run directory: images, database, checkpoints, export."""
