def person_columns(rows):
    """Age, sleep, special service, planets."""
    planets = indicators([row["HomePlanet"] for row in rows], PLANETS)
    destinations = indicators([row["Destination"] for row in rows], DESTINATIONS)
    return [numbers(rows, "Age"), truths(rows, "CryoSleep"), truths(rows, "VIP"), *planets, *destinations]
