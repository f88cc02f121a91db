def classify(
    known: list[tuple[float, ...]], labels: list[str], point: tuple[float, ...], neighbours: int
) -> tuple[str, str]:
    return max(sorted(set(labels)), key=labels.count), "the commonest label of all examples"
