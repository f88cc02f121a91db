def prepare(text):
    """Masked, and what the procuratorate concludes (认为 …) twice: it comes closest to the words of the law."""
    import re

    text = "".join(text.split())
    text = re.sub(r"[0-9０-９]+([.．,，][0-9０-９]+)*", "0", text)
    text = re.sub(r"[×xX＊*某甲乙丙丁]+", "×", text)
    return "\n".join([text, *re.findall(r"认为[^。]*?(?:触犯|构成|应当以|追究|。)", text)])
