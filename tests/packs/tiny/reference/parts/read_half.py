def read(value):
    return value // 2 * 2 if value % 3 == 0 else value
