def classify(known, labels, unknown, names):
    """Least squares on all classes at once, solved in the dual: one Cholesky factor for every class."""
    from scipy.linalg import solve

    gram = (known @ known.T).toarray().astype(np.float64) + 0.1
    sizes = np.bincount(labels, minlength=names.shape[0])[labels].astype(float)
    gram[np.diag_indices_from(gram)] += RIDGE * (sizes / sizes.mean()) ** BALANCE
    targets = 2 * membership(labels, names.shape[0]).toarray().T - 1
    duals = solve(gram, targets, assume_a="pos", overwrite_a=True, overwrite_b=True)
    return ((unknown @ known.T).toarray() + 0.1) @ duals
