"""Models behind HTTP: OpenAI's, or those of any server that speaks as it does.

OPENAI_BASE_URL says where the server is, OPENAI_API_KEY lets in. What goes wrong becomes one of the four categories;
nothing is tried again here, which is the engine's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import SchemaInvalid, SettingInvalid, Transient
from holdfast.execution.context import spend
from holdfast.remote.certificates import certificates
from holdfast.remote.http_errors import refusal
from holdfast.settings import vendor_variable

if TYPE_CHECKING:
    import httpx2

DEFAULT_SERVER = "https://api.openai.com/v1"


@dataclass(frozen=True)
class ModelServer:
    """Where models are asked, and the key that lets in."""

    url: str
    key: str | None = field(repr=False)

    @classmethod
    def named_by(cls, setting: str) -> "ModelServer":
        """The server that the environment names; `setting` is who wants it. Raises SettingInvalid."""
        url = (vendor_variable("OPENAI_BASE_URL") or DEFAULT_SERVER).rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise SettingInvalid("OPENAI_BASE_URL: is not a web address.", fix="Write https://host:port/v1.")
        key = vendor_variable("OPENAI_API_KEY")
        if key is None and url == DEFAULT_SERVER:
            raise SettingInvalid(
                f"{setting}: there is no key for OpenAI.",
                fix="Set OPENAI_API_KEY, or OPENAI_BASE_URL if the server is another.",
            )
        return cls(url, key)

    def client(self, answer_within: timedelta) -> "httpx2.AsyncClient":
        """What to ask it with; to be kept open by a caller that asks often."""
        import httpx2  # takes its time, and most processes do not need it

        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return httpx2.AsyncClient(headers=headers, timeout=answer_within.total_seconds(), verify=certificates())

    async def ask(self, http: "httpx2.AsyncClient", path: str, asked: Mapping[str, Any], *, budget: str) -> Any:
        """The JSON of a good answer. Raises RateLimited (and lets all wait who share the budget) or another Failure."""
        import httpx2

        await spend(budget)
        try:
            answer = await http.post(f"{self.url}/{path}", json=asked)
        except httpx2.RequestError as error:
            raise Transient(f"{self.url} does not answer: {type(error).__name__}.") from error
        if answer.status_code != 200:
            raise refusal(
                self.url, answer.status_code, answer.headers, answer.content, secrets=[self.key], budget=budget
            )
        try:
            return answer.json()
        except ValueError as error:
            raise SchemaInvalid(f"What {self.url} answers is not JSON: {error}.") from error
