def rerank(scores, known, labels, unknown, names):
    """The overlap of the charge's name with the text adds to the score."""
    overlap = (unknown @ names.T).toarray()
    return scores + RERANK_WEIGHT * overlap * scores.std() / max(overlap.std(), 1e-9)
