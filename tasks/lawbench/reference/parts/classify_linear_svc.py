def classify(known, labels, unknown, names):
    """One linear support vector machine a class, on the SVC_FEATURES columns with the most weight."""
    from sklearn.svm import LinearSVC

    weight = np.asarray(known.sum(axis=0)).ravel()
    columns = np.sort(np.argsort(-weight, kind="stable")[:SVC_FEATURES])
    known, unknown = unit_rows(known[:, columns]), unit_rows(unknown[:, columns])
    machine = LinearSVC(C=SVC_C, dual=True, tol=1e-2, max_iter=200, random_state=SEED).fit(known, labels)
    scores = np.full((unknown.shape[0], names.shape[0]), -9.0)
    scores[:, machine.classes_] = machine.decision_function(unknown)
    return scores
