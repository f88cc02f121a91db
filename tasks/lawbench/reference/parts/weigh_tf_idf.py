def weigh(counts, labels):
    """Logarithmic counts times inverse document frequency."""
    rarity = np.log((1 + counts.shape[0]) / (1 + document_frequency(counts))) + 1
    weighted = counts.copy()
    weighted.data = 1 + np.log(weighted.data)
    return unit_rows(weighted @ sp.diags(rarity**IDF_POWER))
