"""What flows through the house: tasks, trajectories, outcomes, verdicts and more. Stdlib and numpy only."""
