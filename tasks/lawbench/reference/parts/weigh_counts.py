def weigh(counts, labels):
    """Plain counts, rows of length one."""
    return unit_rows(counts)
