def prepare(text):
    """Without white space and without the signs between the parts of a charge's name."""
    import re

    return re.sub(r"[\s\[\]、]", "", text)
