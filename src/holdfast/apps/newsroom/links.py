"""When two links lead to the same article: the host in lower case, without what only tells who sent the reader."""

import re
from urllib.parse import urlsplit

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


def names_an_article(link: str | None) -> bool:
    """Whether the link is more than that of a front page, which lazy feeds put on every article."""
    same = same_link(link)
    return same is not None and not re.fullmatch(r"//[^/]*/", same)
