def rerank(scores, known, labels, unknown, names):
    """Among the TOP_K best classes the overlap of the charge's name with the text counts too."""
    return second_opinion(scores, similarities(unknown, names))
