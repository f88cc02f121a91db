def classify(known, labels, unknown):
    """Gradient boosting on histograms; the mean of RESTARTS that see half of the columns at each split."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    chances = np.zeros(len(unknown))
    for restart in range(RESTARTS):
        model = HistGradientBoostingClassifier(
            learning_rate=LEARNING_RATE,
            max_iter=ROUNDS,
            max_leaf_nodes=LEAVES,
            min_samples_leaf=LEAF_ROWS,
            max_features=0.5,
            early_stopping=False,
            random_state=SEED + restart,
        )
        chances += model.fit(known, labels).predict_proba(unknown)[:, 1] / RESTARTS
    return chances
