"""Whether a text is in English, by its small words. Of a text without any it cannot be told."""

from collections.abc import Sequence

ENGLISH = """
    the of and to a in is was for on that with as at by it be are were has have had from this which will would not but
    their they he she his her its an or who said after than more been about into could should there when while
"""
FOREIGN = """
    der die das und ist nicht ein eine einen dem den des mit auf für von zu im sich auch wird wurde bei nach aus über
    le la les des et est une du dans qui que pour pas sur au aux avec ce cette sont ont été par plus selon
    el los las y en un una del por con para se su lo como más pero fue sus al
    il di che è per non gli della delle nel sono alla anche dei
    de het een van dat niet zijn voor met op ook wordt naar aan bij uit
    o os as em não uma dos da das na nos são com foi mais
    och att det som är på av för inte till den med har ett jag og af til ikke kan
"""
ENGLISH_WORDS = frozenset(ENGLISH.split())
FOREIGN_WORDS = frozenset(FOREIGN.split()) - ENGLISH_WORDS
headline_most_words = 20


def is_english(words: Sequence[str]) -> bool:
    """Of words in lower case. A headline may have no small words, or one in a name: it is taken for English."""
    english = sum(word in ENGLISH_WORDS for word in words)
    foreign = sum(word in FOREIGN_WORDS for word in words)
    if foreign > max(english, 1) or sum(word.isascii() for word in words) < 0.7 * len(words):
        return False
    return english >= 0.1 * len(words) or len(words) < headline_most_words
