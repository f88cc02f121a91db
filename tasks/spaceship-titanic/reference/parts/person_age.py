def person_columns(rows):
    """The age alone."""
    return [numbers(rows, "Age")]
