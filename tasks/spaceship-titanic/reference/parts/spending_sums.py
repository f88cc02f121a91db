def spending_columns(rows):
    """Logarithms of the bills and of their sums (all, comfort, food and goods), how many were paid, and whether any."""
    bills = bills_of(rows)
    comfort, goods = np.nansum(bills[:, [0, 3, 4]], axis=1), np.nansum(bills[:, [1, 2]], axis=1)
    sums = np.log1p(np.column_stack([comfort + goods, comfort, goods]))
    paid = np.nansum(bills > 0, axis=1).astype(float)
    return [*np.log1p(bills).T, *sums.T, paid, (paid > 0).astype(float)]
