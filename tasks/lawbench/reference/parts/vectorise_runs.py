def vectorise(texts):
    """Counts of all runs of 1 … NGRAM_MAX characters."""
    return count_shapes(texts, [tuple(range(n)) for n in range(1, NGRAM_MAX + 1)])
