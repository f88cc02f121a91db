def classify(
    known: list[tuple[float, ...]], labels: list[str], point: tuple[float, ...], neighbours: int
) -> tuple[str, str]:
    distances = [sum((a - b) ** 2 for a, b in zip(place, point, strict=True)) for place in known]
    nearest = sorted(range(len(known)), key=distances.__getitem__)[:neighbours]
    votes = [labels[i] for i in nearest]
    return max(sorted(set(votes)), key=votes.count), f"{len(votes)} nearest examples vote"
