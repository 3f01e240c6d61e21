"""What people look at; reads only the run directory."""
