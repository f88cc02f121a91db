def classify(known, labels, unknown):
    """Logistic regression."""
    from sklearn.linear_model import LogisticRegression

    model = evened(LogisticRegression(C=LOGISTIC_C, max_iter=2000))
    return model.fit(known, labels).predict_proba(unknown)[:, 1]
