"""Token contexts, one episode, many episodes."""
