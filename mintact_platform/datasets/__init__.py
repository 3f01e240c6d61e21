"""Data for supervised stages."""
