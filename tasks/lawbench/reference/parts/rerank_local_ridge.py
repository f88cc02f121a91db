def rerank(scores, known, labels, unknown, names):
    """For each case a small model learned on the cases of its TOP_K best classes alone joins the decision."""
    from scipy.linalg import solve

    similar = (unknown @ known.T).toarray()
    gram = (known @ known.T).toarray()
    result = scores - 1e3
    for i, best in enumerate(np.argsort(-scores, axis=1, kind="stable")[:, :TOP_K]):
        rows = np.flatnonzero(np.isin(labels, best))
        targets = 2.0 * (labels[rows, None] == best) - 1
        block = gram[np.ix_(rows, rows)] + 0.1 + LOCAL_RIDGE * np.eye(len(rows))
        local = (similar[i, rows] + 0.1) @ solve(block, targets, assume_a="pos")
        scale = max(scores[i, best].std(), 1e-9) / max(local.std(), 1e-9)
        result[i, best] = scores[i, best] + RERANK_WEIGHT * scale * local
    return result
