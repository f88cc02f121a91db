def prepare(text):
    """The facts alone: what the procuratorate says before and after them is cut off."""
    import re

    text = "".join(text.split())
    start = re.search(r"(指控|查明|起诉书)[^，。]{0,12}?[，：:,]", text[:120])
    text = text[start.end() :] if start else text
    end = re.search(r"(上述事实|针对上述|为证实|为支持|公诉机关认为|检察院认为|本院认为|该院认为)", text[60:])
    return text[: 60 + end.start()] if end else text
