"""Judges and their runner."""
