def prepare(text):
    """Without white space; every number is 0, and the letters and crosses that stand for names are one cross."""
    import re

    text = "".join(text.split())
    text = re.sub(r"[0-9０-９]+([.．,，][0-9０-９]+)*", "0", text)
    return re.sub(r"[×xX＊*某甲乙丙丁]+", "×", text)
