"""For the reference: our docstrings say `Example:` where the docstring parser wants `Examples:`."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class ExamplesSection(Extension):
    """Renames the section of one example, so that it is set as code and not as a quotation."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Called with every object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
