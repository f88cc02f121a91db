def classify(known, labels, unknown, names):
    """Complement naive Bayes: the class whose absence explains the text worst."""
    mass = (membership(labels, names.shape[0]).astype(np.float32) @ known).toarray()
    mass = mass.sum(axis=0) - mass + np.float32(SMOOTHING)
    mass /= mass.sum(axis=1, keepdims=True)
    np.log(mass, out=mass)
    mass /= mass.sum(axis=1, keepdims=True) / mass.shape[1]
    return np.asarray(unknown @ mass.T)
