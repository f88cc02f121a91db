def classify(known, labels, unknown):
    """Half random forest, half extremely randomised trees."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    settings = {"n_estimators": TREES, "min_samples_leaf": TREE_LEAF_ROWS, "random_state": SEED}
    models = [evened(RandomForestClassifier(**settings)), evened(ExtraTreesClassifier(**settings))]
    return sum(model.fit(known, labels).predict_proba(unknown)[:, 1] for model in models) / len(models)
