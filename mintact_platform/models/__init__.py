"""The model-server protocol, its client, and chat formats."""
