def use_names(known, labels, names):
    """Each name is one more labelled case of its charge."""
    return sp.vstack([known, names], format="csr"), np.concatenate([labels, np.arange(names.shape[0])])
