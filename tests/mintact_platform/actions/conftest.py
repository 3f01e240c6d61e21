"""Property tests say what holds, not how fast a loaded machine is."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
