"""A minimal browser for the control page: it gets pages and sends forms, without scripts, styles or links."""

from __future__ import annotations

import http.client
from html import unescape
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit


class Answer(NamedTuple):
    """A response."""

    status: int
    text: str
    headers: dict[str, str]


class Browser:
    """A browser for one control address, http://HOST:PORT."""

    def __init__(self, url: str, **headers: str) -> None:
        self._address = urlsplit(url).netloc
        self._origin = url
        self._headers = headers

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        """Send one request on a new connection; return the response."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request(method, path, body, {**self._headers, **headers})
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, unescape(answer.read().decode()), lowered)
        finally:
            connection.close()

    def get(self, path: str) -> str:
        """Return the text of a page that must exist."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.text

    def send(self, what: str, **fields: str) -> Answer:
        """Send one of the page's forms."""
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin}
        return self.ask("POST", f"/page/do/{what}", urlencode(fields), **form)
