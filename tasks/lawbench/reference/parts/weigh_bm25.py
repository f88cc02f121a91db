def weigh(counts, labels):
    """BM25: counts that saturate, the sooner the shorter the text, times inverse document frequency."""
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    norms = BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(lengths.mean(), 1e-9))
    rarity = np.log((1 + counts.shape[0]) / (1 + document_frequency(counts))) + 1
    weighted = counts.copy()
    weighted.data = weighted.data / (weighted.data + np.repeat(norms, np.diff(counts.indptr)))
    return unit_rows(weighted @ sp.diags(rarity**IDF_POWER))
