"""Recorded sockets: what the site said, said again in the same places of the conversation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mintact_env_web.cache.exchange import Frame, Request, Socket
from mintact_env_web.cache.key import Key, key_of
from mintact_env_web.cache.rules import Rules

if TYPE_CHECKING:
    from playwright.async_api import WebSocketRoute

HEARD = "\0heard"
"""Follows what the site says after a message; the stage keeps it from the page."""


class Conversation:
    """One socket's place in its recording. Pure.

    Args:
        socket: as recorded.
        rules: of the site; parts of a message that they ignore tell none apart.

    Attributes:
        unknown: messages of the page that the recording lacks.
    """

    def __init__(self, socket: Socket, rules: Rules) -> None:
        self._socket, self._rules = socket, rules
        self._at = 0
        self.unknown = 0

    @property
    def over(self) -> bool:
        """Whether the site ended it at this point."""
        return self._socket.closed and self._at >= len(self._socket.frames)

    def begin(self) -> list[str | bytes]:
        """What the site says before the page says anything."""
        return self._until_sent()

    def hear(self, message: str | bytes) -> list[str | bytes]:
        """What the site says after a message of the page."""
        frames = self._socket.frames
        for number in range(self._at, len(frames)):
            if frames[number].sent and self._alike(frames[number].data, message):
                self._at = number + 1
                return self._until_sent()
        self.unknown += 1
        return []

    def _until_sent(self) -> list[str | bytes]:
        said: list[str | bytes] = []
        frames: Sequence[Frame] = self._socket.frames
        while self._at < len(frames) and not frames[self._at].sent:
            said.append(frames[self._at].data)
            self._at += 1
        return said

    def _alike(self, recorded: str | bytes, message: str | bytes) -> bool:
        return recorded == message or self._key(recorded) == self._key(message)

    def _key(self, message: str | bytes) -> Key:
        data = message.encode() if isinstance(message, str) else message
        return key_of(Request("SEND", self._socket.url, {}, data), self._rules)


class Sockets:
    """The recorded sockets of a site, for one episode.

    Args:
        sockets: of all visits; later ones only add what the first did not open.
        rules: of the site.

    Attributes:
        conversations: those that were opened.
        misses: URLs of sockets beside the recorded ones at the same place.
    """

    def __init__(self, sockets: Sequence[Socket], rules: Rules) -> None:
        self._rules = rules
        self._recorded: dict[Key, list[Socket]] = {}
        for visit in sorted({socket.visit for socket in sockets}):
            known = set(self._recorded)
            for socket in sockets:
                key = _url_key(socket.url, rules)
                if socket.visit == visit and key not in known:
                    self._recorded.setdefault(key, []).append(socket)
        self._given: dict[Key, int] = {}
        self.conversations: list[Conversation] = []
        self.misses: list[str] = []

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """Matches the URLs of sockets that may be recorded, None when none is.

        Others are left to the browser, which has no network: they fail at once, as they should.
        """
        places = sorted({_place(key.place) for key in self._recorded})
        if not places:
            return None
        escaped = (re.escape(place).replace(r"\*", "[^/?#]*") for place in places)
        return re.compile(f"^(?:{'|'.join(escaped)})(?:[?#].*)?$")

    async def answer(self, route: WebSocketRoute) -> None:
        """Play the next recorded conversation of this URL."""
        key = _url_key(route.url, self._rules)
        recorded = self._recorded.get(key)
        if recorded is None:
            self.misses.append(route.url)
            # there is no server: the page gets its error at once
            route.connect_to_server()
            return
        number = self._given.get(key, 0)
        self._given[key] = number + 1
        conversation = Conversation(recorded[min(number, len(recorded) - 1)], self._rules)
        self.conversations.append(conversation)

        async def heard(message: str | bytes) -> None:
            await _say(route, conversation.hear(message), conversation.over)

        route.on_message(heard)
        await _say(route, conversation.begin(), conversation.over)


async def _say(route: WebSocketRoute, messages: Sequence[str | bytes], over: bool) -> None:
    for message in (*messages, HEARD):
        route.send(message)
    if over:
        await route.close()


def _url_key(url: str, rules: Rules) -> Key:
    return key_of(Request("GET", url), rules)


def _place(place: str) -> str:
    """The place as browsers write it in a URL."""
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}{parts.path or '/'}"
