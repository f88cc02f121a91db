def group_columns(rows):
    """How many travel together, how many share the cabin, and what the others do: sleep, spend, are how old."""
    group, cabin = sizes(rows, group_of), sizes(rows, lambda row: row["Cabin"])
    others = [truths(rows, "CryoSleep"), np.log1p(np.nansum(bills_of(rows), axis=1)), numbers(rows, "Age")]
    return [group, (group == 1).astype(float), cabin, *(of_others(rows, values) for values in others)]
