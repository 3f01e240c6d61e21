"""What travels between a client and a server, and how large it may be."""
