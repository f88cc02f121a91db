def classify(known, labels, unknown, names):
    """Least squares on all classes at once, solved in the dual: one Cholesky factor for every class."""
    from scipy.linalg import solve

    gram = similarities(known, known) + np.float32(0.1)
    sizes = np.bincount(labels, minlength=names.shape[0])[labels]
    gram[np.diag_indices_from(gram)] += RIDGE * (sizes / sizes.mean()) ** BALANCE
    targets = 2 * membership(labels, names.shape[0]).toarray().T - 1
    duals = solve(gram, targets.astype(np.float32), assume_a="pos", overwrite_a=True, overwrite_b=True)
    return (similarities(unknown, known) + 0.1) @ duals
