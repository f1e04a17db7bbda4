"""The same story twice, found by its link, or by its words.

Two articles are one story if they share at least `alike_least` of their runs of three words and are at most three days
apart. That is careful on purpose: an article that stands in the brief twice does less harm than one that is missing.
The same event in the words of two people stays two articles.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from holdfast.apps.newsroom.article import Article

shingle_words = 3
shingles_least = 12  # shorter texts are alike by chance
alike_least = 0.45
apart_most = timedelta(days=3)
NEVER = datetime.max.replace(tzinfo=UTC)
WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


def without_duplicates(articles: Iterable[Article]) -> tuple[list[Article], int]:
    """Each story once, the newest first and the undated last; and how many were left out.

    Of one story the longest text stays, then the earliest. The order in which articles come changes nothing.
    """
    kept: list[Article] = []
    names: set[str] = set()
    sizes: list[int] = []
    having: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)  # a run of words: the numbers of those with it
    left_out = 0
    for article in sorted(articles, key=best_first):
        shingles = shingles_of(article)
        shared = Counter(number for shingle in shingles for number in having.get(shingle, ()))
        is_known = len(shingles) >= shingles_least and any(
            both >= alike_least * (len(shingles) + sizes[number] - both)
            and near(article.published, kept[number].published)
            for number, both in shared.items()
        )
        if is_known or not names.isdisjoint(names_of(article)):
            left_out += 1
            continue
        for shingle in shingles:
            having[shingle].append(len(kept))
        kept.append(article)
        names |= names_of(article)
        sizes.append(len(shingles))
    return sorted(kept, key=newest_first), left_out


def best_first(article: Article) -> tuple[object, ...]:
    published = article.published or NEVER
    return -len(article.text), published, article.id, article.source, article.title, article.text, article.link or ""


def newest_first(article: Article) -> tuple[float, str]:
    published = article.published or datetime.min
    moment = published if published.tzinfo else published.replace(tzinfo=UTC)  # some feeds leave out the time zone
    return -moment.timestamp(), article.id


def names_of(article: Article) -> set[str]:
    """Its id, and what its link has in common with others to the same article."""
    link = article_link(article.link)
    return {article.id} | ({link} if link else set())


def shingles_of(article: Article) -> set[tuple[str, ...]]:
    words = WORD.findall(f"{article.title} {article.text}".casefold().replace("\u2019", "'"))
    return set(zip(*(words[start:] for start in range(shingle_words)), strict=False))


def near(one: datetime | None, other: datetime | None) -> bool:
    """Whether they may be of one story. A column that is printed each week reads much the same each time."""
    return one is None or other is None or abs(one - other) <= apart_most


TRACKING = re.compile(
    r"(?:utm_\w*|fbclid|gclid|dclid|gbraid|wbraid|msclkid|yclid|twclid|ttclid|igshid|igsh|mc_cid|mc_eid|mkt_tok|_hsenc"
    r"|_hsmi|_ga|_gl|wt_mc|at_medium|at_campaign|cmpid|ref_src|ref_url|source_feed)\Z",
    re.I,
)
PORTS = {"http": 80, "https": 443}
link_most_chars = 2_000


def web_link(link: str) -> str | None:
    """The link, if a browser can follow it over http or https."""
    link = link.strip()
    if len(link) > link_most_chars or re.search(r"[\s<>\"\x00-\x1f\x7f-\x9f]", link):
        return None
    return link if same_link(link) else None


def same_link(link: str | None) -> str | None:
    """What two links to one article have in common. None for no link, and for none over http or https."""
    try:
        parts = urlsplit(link or "")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not host:
        return None
    place = host.rstrip(".") + (f":{port}" if port not in (None, PORTS[parts.scheme]) else "")
    kept = [pair for pair in parts.query.split("&") if pair and not TRACKING.match(pair.partition("=")[0])]
    return f"//{place}{parts.path or '/'}" + (f"?{'&'.join(kept)}" if kept else "")


def article_link(link: str | None) -> str | None:
    """The same, but None also for the link of a front page, which lazy feeds put on every article."""
    same = same_link(link)
    return None if same is None or re.fullmatch(r"//[^/]*/", same) else same
