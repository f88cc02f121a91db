def classify(known, labels, unknown, names):
    """The NEIGHBOURS most similar labelled cases vote, each with its similarity."""
    similar = similarities(unknown, known)
    floor = -np.sort(-similar, axis=1)[:, :NEIGHBOURS][:, -1:]
    return np.where(similar >= floor, similar, 0.0) @ membership(labels, names.shape[0]).toarray().T
