def spending_columns(rows):
    """The five bills as they stand."""
    return [numbers(rows, bill) for bill in BILLS]
