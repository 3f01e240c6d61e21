"""Sites made from seeds: what they are about, how they look, what can be done on them."""
