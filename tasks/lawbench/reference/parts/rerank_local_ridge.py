def rerank(scores, known, labels, unknown, names):
    """For each case a small model, learned on the labelled cases of its TOP_K best classes alone, counts too."""
    from scipy.linalg import solve

    similar, gram = similarities(unknown, known) + 0.1, similarities(known, known) + 0.1
    opinion = np.zeros_like(scores)
    for i, best in enumerate(np.argsort(-scores, axis=1, kind="stable")[:, :TOP_K]):
        rows = np.flatnonzero(np.isin(labels, best))
        block = gram[np.ix_(rows, rows)] + LOCAL_RIDGE * np.eye(len(rows))
        targets = 2.0 * (labels[rows, None] == best) - 1
        opinion[i, best] = similar[i, rows] @ solve(block, targets, assume_a="pos")
    return second_opinion(scores, opinion)
