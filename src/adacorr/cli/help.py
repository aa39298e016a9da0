"""How a help page is drawn: text that flows, and flags without what goes without saying."""

from __future__ import annotations

from typing import Any


class Page:
    """The formatter of cyclopts, imported when a page is wanted, with plainer entries."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        entries = [_plain(entry) for entry in panel.entries]
        self._formatter(console, options, panel.copy(entries=entries))

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        self._formatter.render_usage(console, options, usage)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        self._formatter.render_description(console, options, description)

    @property
    def _formatter(self) -> Any:
        from cyclopts.help.formatters import DefaultFormatter

        return DefaultFormatter()


def _plain(entry: Any) -> Any:
    """Undo the line breaks of docstrings; a flag is off by default, and ``--no-flag`` undoes it."""
    from cyclopts.help import InlineText

    text = getattr(getattr(entry.description, "primary_renderable", None), "plain", "")
    if text:
        flowing = InlineText.from_format(" ".join(text.split()), format="plaintext")
        entry = entry.copy(description=flowing)
    return entry.copy(default=None, negative_names=()) if entry.default == "False" else entry
