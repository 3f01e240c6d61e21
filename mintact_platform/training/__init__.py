"""The trainer protocol, batch assembly and the objective harness."""
