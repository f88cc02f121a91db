def weigh(counts, labels):
    """Presence times inverse document frequency: how often a pattern stands in a text does not count."""
    rarity = np.log((1 + counts.shape[0]) / (1 + document_frequency(counts))) + 1
    weighted = counts.copy()
    weighted.data[:] = 1
    return unit_rows(weighted @ sp.diags(rarity**IDF_POWER))
