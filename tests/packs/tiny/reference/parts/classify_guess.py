# ruff: noqa: F821
def classify(value):
    return GUESS
