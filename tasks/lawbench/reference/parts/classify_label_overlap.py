def classify(known, labels, unknown, names):
    """Zero-shot: how much of a charge's name stands in the text."""
    return similarities(unknown, names)
