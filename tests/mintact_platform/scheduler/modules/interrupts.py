"""Cannot be imported: it says what only a person may."""

raise KeyboardInterrupt
