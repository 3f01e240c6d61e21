"""What flows through the house: tasks, trajectories, outcomes, verdicts. Stdlib and numpy only."""
