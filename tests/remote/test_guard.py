"""No document makes a worker connect to where the whole world could not."""

import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from holdfast.errors import Fatal, Transient
from holdfast.remote.certificates import certificates
from holdfast.remote.fetch.guard import Guard
from holdfast.settings import Settings
from tests.remote.conftest import HERE, Fetching
from tests.remote.site import Site, serving

BODY = b"The Peldaxakket index."


def resolving(*answers: Sequence[str]) -> tuple[Guard, list[str]]:
    """A guard whose resolver gives these answers, one after the other; and what it was asked."""
    left, asked = list(answers), list[str]()

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return left.pop(0)

    return Guard([HERE], resolve=resolve), asked


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450::1",
        "::ffff:8.8.8.8", "2002:808:808::1", "64:ff9b::808:808",
        "2001:0:808:808:0:ffff:f7f7:f7f7",
    ],
)  # fmt: skip
def test_a_public_address_may_be_asked(address: str) -> None:
    assert Guard().lets(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104
        "127.0.0.1", "127.9.9.9", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1",
        "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
        "::", "::1", "::7f00:1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "100::1", "4000::1",
        "2001:db8::1", "2001:2::1", "2001:10::1", "3fff::1", "5f00::1", "64:ff9b:1::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::1", "2002:a00:1::", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2001:0:808:808:0:ffff:80ff:fffe",  # Teredo, with 127.0.0.1 behind a public server
        "2001:0:7f00:1:0:ffff:f7f7:f7f7",  # and the other way round
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_may_not(address: str) -> None:
    assert not Guard().lets(ip_address(address))


def test_an_operator_allows_networks() -> None:
    guard = Guard(Settings(fetch_allow="10.1.0.0/16, fd12::/32").fetch_networks)
    lets = {
        text: guard.lets(ip_address(text)) for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "10.2.0.1", "::1")
    }
    assert lets == {"10.1.2.3": True, "::ffff:10.1.2.3": True, "fd12::1": True, "10.2.0.1": False, "::1": False}


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.2.", "2130706434", "0x7f000002", "0177.0.0.2", "127.2", "127.0.2", "0x7f.0.0.2", "0", "[::1]",
        "[::ffff:127.0.0.2]", "[fe80::1%25lo]", "[::1%25lo]", "127。0。0。2", "①②⑦.0.0.2", "ⓛocalhost", "a..b",
        "-a.example", "%6c%6fcalhost", "127.0.0.2%00.example.org", "user@127.0.0.1", "user:password@127.0.0.1",
        "127.0.0.1\\@127.0.0.2",
    ],
)  # fmt: skip
async def test_an_odd_host_does_not_slip_through(fetching: Fetching, site: Site, host: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which it is, is asserted below
        await fetching(f"http://{host}:{site.port}/")
    assert getattr(caught.value, "code", None) in ("address-refused", "uri")
    assert site.asked == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.1."])
async def test_this_machine_is_not_asked_unless_it_is_allowed(fetching: Fetching, site: Site, host: str) -> None:
    with pytest.raises(Fatal) as caught:
        await fetching(site.url("/", host), guard=Guard())
    assert caught.value.code == "address-refused"
    assert site.asked == []


async def test_a_refusal_says_how_a_network_is_allowed_and_no_password(fetching: Fetching) -> None:
    with pytest.raises(Fatal, match=r"HOLDFAST_FETCH_ALLOW=") as caught:
        await fetching("http://169.254.169.254/latest/meta-data")
    assert caught.value.code == "address-refused"
    with pytest.raises(Fatal) as caught:
        await fetching("http://me:hush@example.org/")
    assert "hush" not in str(caught.value)


async def test_the_connection_goes_to_the_address_that_was_checked(fetching: Fetching, site: Site) -> None:
    guard, asked = resolving(["127.0.0.1"], ["127.0.0.2"])
    site.answer("/a", BODY)
    await fetching(site.url("/a", host="papers.example"), guard=guard)
    [(_, headers, address)] = site.asked
    assert (asked, address, headers["Host"]) == (["papers.example"], "127.0.0.1", f"papers.example:{site.port}")


async def test_a_name_that_becomes_private_between_two_hops_is_refused(fetching: Fetching, site: Site) -> None:
    guard, asked = resolving(["127.0.0.1"], ["127.0.0.2"])
    site.answer("/a", status=302, Location="/b")
    site.answer("/b", BODY)
    with pytest.raises(Fatal, match=r"papers\.example \(127\.0\.0\.2\) is not a public address"):
        await fetching(site.url("/a", host="papers.example"), guard=guard)
    assert asked == ["papers.example"] * 2
    assert [path for path, _, _ in site.asked] == ["/a"]


async def test_one_private_address_among_public_ones_is_enough_to_refuse(fetching: Fetching, site: Site) -> None:
    guard, _ = resolving(["127.0.0.1", "10.0.0.1"])
    with pytest.raises(Fatal, match=r"10\.0\.0\.1"):
        await fetching(site.url("/a", host="papers.example"), guard=guard)
    assert site.asked == []


async def test_the_next_address_is_tried_when_one_takes_no_connection(fetching: Fetching, site: Site) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["::1", "127.0.0.1"]

    site.answer("/a", BODY)
    guard = Guard([HERE, ip_network("::1/128")], resolve=resolve)
    assert (await fetching(site.url("/a", host="papers.example"), guard=guard)).bytes == len(BODY)


async def test_a_name_that_is_not_found_is_transient(fetching: Fetching) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(Transient, match="Name or service not known"):
        await fetching("http://papers.example/", guard=Guard(resolve=resolve))
    with pytest.raises(Transient, match="has no address"):
        await fetching("http://papers.example/", guard=resolving([])[0])


async def test_redirects_are_followed_to_the_end(fetching: Fetching, site: Site) -> None:
    for hop in range(5):
        site.answer(f"/{hop}", status=(301, 302, 303, 307, 308)[hop], Location=f"{hop + 1}")
    site.answer("/5", BODY)
    assert (await fetching(site.url("/0"))).bytes == len(BODY)
    site.answer("/start", status=302, Location=site.url("/0"))
    with pytest.raises(Fatal, match="more than 5 redirects") as caught:
        await fetching(site.url("/start"))
    assert caught.value.code == "redirects"


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/b", "//127.0.0.2:{port}/b", "http://[::1]:{port}/b",
        "http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:{port}/",
        "http://user:password@127.0.0.1:{port}/b", "http://2130706433:{port}/b",
    ],
)  # fmt: skip
async def test_a_redirect_leads_nowhere_that_could_not_be_asked(fetching: Fetching, site: Site, location: str) -> None:
    site.answer("/a", status=302, Location=location.format(port=site.port))
    site.answer("/b", BODY)
    with pytest.raises(Fatal) as caught:
        await fetching(site.url("/a"))
    assert caught.value.code == "address-refused"
    assert [path for path, _, _ in site.asked] == ["/a"]


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with a certificate for papers.example, which is trusted for this test."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=papers.example", "-addext", "subjectAltName=DNS:papers.example"]
    try:
        files = ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*command, *names, *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    certificates.cache_clear()
    with serving(context) as site:
        yield site
    certificates.cache_clear()


async def test_a_certificate_is_checked_against_the_name_and_not_the_address(fetching: Fetching, secure: Site) -> None:
    secure.answer("/a", BODY)
    url = secure.url("/a", "papers.example", "https")
    assert (await fetching(url, guard=resolving(["127.0.0.1"])[0])).bytes == len(BODY)
    other = secure.url("/a", "other.example", "https")
    with pytest.raises(Transient, match="certificate"):
        await fetching(other, guard=resolving(["127.0.0.1"])[0])
    assert len(secure.asked) == 1


async def test_a_redirect_from_https_to_http_is_refused(fetching: Fetching, secure: Site, site: Site) -> None:
    secure.answer("/a", status=301, Location=site.answer("/b", BODY))
    with pytest.raises(Fatal, match="from https to http") as caught:
        await fetching(secure.url("/a", "papers.example", "https"), guard=resolving(["127.0.0.1"])[0])
    assert caught.value.code == "address-refused"
    assert site.asked == []
