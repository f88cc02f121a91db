def read(value):
    return value
