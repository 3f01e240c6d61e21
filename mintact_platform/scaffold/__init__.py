"""New plugins: a working distribution of each kind, written from plain templates."""
