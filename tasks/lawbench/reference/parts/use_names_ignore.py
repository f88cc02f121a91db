def use_names(known, labels, names):
    """The names of the charges teach nothing by themselves."""
    return known, labels
