def classify(known, labels, unknown, names):
    """The NEIGHBOURS most similar labelled cases vote, each with its similarity."""
    similar = (unknown @ known.T).toarray()
    keep = min(NEIGHBOURS, similar.shape[1])
    floor = -np.sort(-similar, axis=1)[:, keep - 1 : keep]
    return np.where(similar >= floor, similar, 0.0) @ membership(labels, names.shape[0]).toarray().T
