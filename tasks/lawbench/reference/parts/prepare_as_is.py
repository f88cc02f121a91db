def prepare(text):
    """The text as it stands."""
    return text
