def vectorise(texts):
    """Counts of runs of 1 … NGRAM_MAX characters inside a clause: none crosses a punctuation mark."""
    return count_shapes(texts, [tuple(range(n)) for n in range(1, NGRAM_MAX + 1)], PUNCTUATION)
