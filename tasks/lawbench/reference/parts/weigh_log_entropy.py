def weigh(counts, labels):
    """Logarithmic counts times one minus the entropy of the pattern over the texts."""
    totals = np.asarray(counts.sum(axis=0)).ravel()
    share = counts @ sp.diags(1 / np.maximum(totals, 1e-9))
    share.data = share.data * np.log(share.data)
    entropy = -np.asarray(share.sum(axis=0)).ravel() / np.log(counts.shape[0])
    weighted = counts.copy()
    weighted.data = np.log1p(weighted.data)
    return unit_rows(weighted @ sp.diags(np.maximum(1 - entropy, 0.0) ** IDF_POWER))
