"""From nothing to a small policy: tokenizer, tiny model, alignment, attention guidance."""
