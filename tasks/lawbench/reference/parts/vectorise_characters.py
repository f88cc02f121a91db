def vectorise(texts):
    """Counts of single characters."""
    return count_shapes(texts, [(0,)])
