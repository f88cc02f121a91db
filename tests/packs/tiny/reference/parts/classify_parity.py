def classify(value):
    if value >= LIMIT:
        return GUESS
    return "odd" if value % 2 else "even"
