def cabin_columns(rows):
    """Nothing of the cabin."""
    return []
