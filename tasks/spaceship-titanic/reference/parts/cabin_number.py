def cabin_columns(rows):
    """Deck as a rank from the top, side, number, and where along its deck the cabin lies."""
    ranks = np.array([float(DECKS.index(deck(row))) if deck(row) else np.nan for row in rows])
    place = np.array([cabin_number(row) for row in rows])
    last = dict.fromkeys(DECKS, 1.0)
    for row, p in zip(rows, place, strict=True):
        if deck(row):
            last[deck(row)] = max(last[deck(row)], p)
    along = np.array([p / last[deck(row)] if deck(row) else np.nan for p, row in zip(place, rows, strict=True)])
    return [ranks, *indicators([side(row) for row in rows], "PS"), place, along]
