"""A browser without a screen, script or style: gets pages of a broker, follows no link, sends forms."""

from __future__ import annotations

import http.client
from html import unescape
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit


class Answer(NamedTuple):
    """What came back."""

    status: int
    text: str
    headers: dict[str, str]


class Browser:
    """Of one control address, http://HOST:PORT"""

    def __init__(self, url: str, **headers: str) -> None:
        self._address = urlsplit(url).netloc
        self._origin = url
        self._headers = headers

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        """One request by a connection of its own."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request(method, path, body, {**self._headers, **headers})
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, unescape(answer.read().decode()), lowered)
        finally:
            connection.close()

    def get(self, path: str) -> str:
        """The text of a page that is there."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.text

    def send(self, what: str, **fields: str) -> Answer:
        """Send one of the page's forms."""
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin}
        return self.ask("POST", f"/page/do/{what}", urlencode(fields), **form)
