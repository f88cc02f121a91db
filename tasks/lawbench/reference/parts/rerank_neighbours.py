def rerank(scores, known, labels, unknown, names):
    """Among the TOP_K best classes the similarity of the three nearest labelled cases counts too."""
    similar = similarities(unknown, known)
    nearest = np.zeros_like(scores)
    for label in np.unique(labels):
        nearest[:, label] = -np.sort(-similar[:, labels == label], axis=1)[:, :3].mean(axis=1)
    return second_opinion(scores, nearest)
