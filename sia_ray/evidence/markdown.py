"""Text from outside inside our own Markdown: shown, but never structure.

Model answers, evaluator messages and file names reach files that people, prompts and ``sia web`` read. Here they
become one line that opens no heading, list, code, link or tag, and that no ``**Key**: value`` reader takes for a key.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_LEADING = re.compile(r"^(?:[#>*+=\-_~|]+\s*|\d+[.)]\s+)+")


def inline(text: str, limit: int = 200) -> str:
    """``text`` as one harmless line of at most ``limit`` characters."""
    text = _CONTROL.sub(" ", text).strip()
    text = _LEADING.sub("", text)
    text = text.replace("`", "'").replace("**", "").replace("](", "] (").replace("<", "&lt;")
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def number(value: float) -> str:
    """A number as it stands in our files: integers whole, floats to six significant digits."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def gain(value: float) -> str:
    """The same with its sign."""
    return f"{value:+d}" if isinstance(value, int) else f"{value:+.6g}"
