def classify(known, labels, unknown):
    """The mean of boosting, forest, logistic regression and a support vector machine."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    boosting = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_iter=ROUNDS,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAF_ROWS,
        max_features=0.5,
        early_stopping=False,
        random_state=SEED,
    )
    trees = RandomForestClassifier(TREES, min_samples_leaf=TREE_LEAF_ROWS, random_state=SEED)
    models = [boosting, evened(trees), evened(LogisticRegression(C=LOGISTIC_C, max_iter=2000))]
    chances = [model.fit(known, labels).predict_proba(unknown)[:, 1] for model in models]
    margin = evened(SVC(C=SVM_C)).fit(known, labels).decision_function(unknown)
    return np.mean([*chances, 1 / (1 + np.exp(-2 * margin))], axis=0)
