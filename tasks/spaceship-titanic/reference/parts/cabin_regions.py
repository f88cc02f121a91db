def cabin_columns(rows):
    """Which deck, which side, and which of REGIONS stretches of cabin numbers."""
    place = np.array([cabin_number(row) for row in rows])
    limits = np.nanquantile(place, np.linspace(0, 1, REGIONS + 1)[1:-1])
    stretch = np.where(np.isnan(place), -1, np.searchsorted(limits, place))
    decks, sides = [deck(row) for row in rows], [side(row) for row in rows]
    return [*indicators(decks, DECKS), *indicators(sides, "PS"), *indicators(stretch, range(REGIONS))]
