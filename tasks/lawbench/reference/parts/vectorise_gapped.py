def vectorise(texts):
    """Counts of characters, of pairs, and of pairs with one or two characters between, all inside a clause."""
    return count_shapes(texts, [(0,), (0, 1), (0, 2), (0, 3)], PUNCTUATION)
