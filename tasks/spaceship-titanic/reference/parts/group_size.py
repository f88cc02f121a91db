def group_columns(rows):
    """How many travel together, whether alone, how many share the surname."""
    group, family = sizes(rows, group_of), sizes(rows, surname)
    return [group, (group == 1).astype(float), family]
