def rerank(scores, known, labels, unknown, names):
    """The classifier's order stands."""
    return scores
