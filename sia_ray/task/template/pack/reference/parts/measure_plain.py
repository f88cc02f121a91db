def measure(x: float, y: float) -> tuple[float, ...]:
    return (x, y)
