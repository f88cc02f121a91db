def weigh(counts, labels):
    """Saturating counts times how strongly the pattern points to one class of the labelled texts (chi-square)."""
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    norms = BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(lengths.mean(), 1e-9))
    weighted = counts.copy()
    weighted.data = weighted.data / (weighted.data + np.repeat(norms, np.diff(counts.indptr)))
    presence = counts[: len(labels)].copy()
    presence.data[:] = 1
    observed = (membership(labels, labels.max() + 1) @ presence).tocoo()
    total = np.maximum(np.asarray(presence.sum(axis=0)).ravel(), 1e-9)
    expected = total[observed.col] * np.bincount(labels)[observed.row] / len(labels)
    chi = (observed.data - expected) ** 2 / np.maximum(expected, 1e-9)
    strength = np.zeros(counts.shape[1])
    np.maximum.at(strength, observed.col, chi)
    return unit_rows(weighted @ sp.diags(strength**CHI_POWER))
