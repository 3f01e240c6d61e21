"""Weblica-Cache: websites recorded at the level of HTTP and replayed without any network."""
