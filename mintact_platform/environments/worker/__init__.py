"""Inside a worker: one process that hosts instances of one environment."""
