def prepare(text):
    """The first HEAD_CHARS characters: what was done is told first."""
    return "".join(text.split())[:HEAD_CHARS]
