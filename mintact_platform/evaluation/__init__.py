"""Success with intervals."""
