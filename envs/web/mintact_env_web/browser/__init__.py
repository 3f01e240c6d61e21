"""A real Chromium, shared and bounded: found, started, looked at, operated, guarded."""
