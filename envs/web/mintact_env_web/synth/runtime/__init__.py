"""What every synthetic site runs on: its shell, its structure, and how a solver finds things."""
