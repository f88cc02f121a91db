def classify(
    known: list[tuple[float, ...]], labels: list[str], point: tuple[float, ...], neighbours: int
) -> tuple[str, str]:
    distances = {}
    for label in sorted(set(labels)):
        own = [place for place, name in zip(known, labels, strict=True) if name == label]
        centre = [sum(axis) / len(own) for axis in zip(*own, strict=True)]
        distances[label] = sum((a - b) ** 2 for a, b in zip(centre, point, strict=True))
    return min(distances, key=distances.__getitem__), "its centre is nearest"
