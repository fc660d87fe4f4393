"""Reads the numbers that a page of a run shows: page_numbers.py PAGE.html

Fails where one has more than five digits that count, or four before the point without a separator, and where cards
have other units than those of a plan's page.
"""

import html
import re
import sys

page = re.sub(r"<(style|script)>.*?</\1>", "", open(sys.argv[1]).read(), flags=re.S)
text = html.unescape(re.sub(r"<[^>]*>", "\n", page))
numbers = re.findall(r"(?<![\w.,'])\d+(?:,\d+)*(?:\.\d+)?(?![\w.,]*\d)", text)
for number in numbers:
    whole, _, part = number.partition(".")
    assert re.fullmatch(r"\d{1,3}(,\d{3})*", whole), f"{number} has no separators"
    counting = (whole.replace(",", "") + part).lstrip("0")
    assert not part or len(counting) <= 6, f"{number} has digits that say nothing"
cards = dict(enumerate(re.findall(r"<b>(.*?)</b>", page)))
assert re.fullmatch(r"\d+\.\d{4}", cards[0]), cards
assert re.fullmatch(r"[\d.,]+ (us|ms|s) a step", cards[1]), cards
assert re.fullmatch(r"[\d.,]+( [kMB])? tokens/s", cards[2]), cards
assert re.fullmatch(r"[\d.,]+ (ms|s|min|h|days)", cards[3]), cards
assert re.fullmatch(r"[\d.]+ [KMG]iB", cards[4]), cards
print(f"{len(numbers)} numbers")
