def vectorise(texts):
    """Counts of runs of 1 … NGRAM_MAX characters and of pairs with one or two characters between."""
    return count_shapes(texts, [*(tuple(range(n)) for n in range(1, NGRAM_MAX + 1)), (0, 2), (0, 3)], PUNCTUATION)
