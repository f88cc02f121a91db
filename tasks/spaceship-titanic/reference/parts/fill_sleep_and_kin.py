def fill(rows):
    """As of sleep and spending; planet, cabin and destination from the group, else the planet from surname or deck."""
    cabins = commonest(rows, group_of, lambda row: row["Cabin"])
    planets = [commonest(rows, key, lambda row: row["HomePlanet"]) for key in (group_of, surname, deck)]
    destinations = commonest(rows, group_of, lambda row: row["Destination"])
    filled = []
    for row in rows:
        row = dict(row)
        spent = [float(row[bill] or 0) for bill in BILLS]
        child = bool(row["Age"]) and float(row["Age"]) <= CHILD_AGE
        if not row["CryoSleep"] and (any(spent) or not child):
            row["CryoSleep"] = str(not any(spent))
        if row["CryoSleep"] == "True" or child:
            row.update({bill: row[bill] or "0" for bill in BILLS})
        row["Cabin"] = row["Cabin"] or cabins.get(group_of(row), "")
        row["Destination"] = row["Destination"] or destinations.get(group_of(row), DESTINATIONS[0])
        for known, key in zip(planets, (group_of, surname, deck), strict=True):
            row["HomePlanet"] = row["HomePlanet"] or known.get(key(row), "")
        filled.append(row)
    return filled
