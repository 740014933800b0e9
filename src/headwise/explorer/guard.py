"""Who may call the server: only the page that it has served itself, with the token of its address."""

import secrets
from collections.abc import Collection

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Headers of every answer, besides the content security policy.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Refuses requests of other pages and programs with status 403 and one sentence.

    The Host header protects against other names for this machine (DNS rebinding), the Origin header against requests of
    other pages, and the token against other users and programs of this machine.

    Args:
        app: The application.
        token: The secret in the address of the page, `?token=…`.
        hosts: Values of the Host header that are accepted, such as `127.0.0.1:8000`; None for any host.
        policy: The content security policy of every answer.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str] | None, policy: str) -> None:
        self.app, self.token, self.hosts = app, token, hosts
        self.headers = {**HEADERS, "Content-Security-Policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    own = [(name.lower().encode(), text.encode()) for name, text in self.headers.items()]
                    message["headers"] = [*message["headers"], *own]
                await send(message)

            problem = self.problem(scope)
            app = self.app if problem is None else JSONResponse({"error": problem}, status_code=403)
            await app(scope, receive, send_with_headers)

    def problem(self, scope: Scope) -> str | None:
        """Why a request is refused; None if it is accepted."""
        headers = Headers(scope=scope)
        host, origin = headers.getlist("host"), headers.getlist("origin")
        if len(host) != 1 or (self.hosts is not None and host[0] not in self.hosts):
            return "the explorer does not answer under this host name: open the address that it has printed"
        if origin and origin != [f"http://{host[0]}"]:
            return "another page has sent this request: only the page of the explorer may"
        if not origin and scope["method"] not in ("GET", "HEAD"):
            return "the request does not say which page has sent it: it needs the header Origin"
        given = QueryParams(scope["query_string"]).getlist("token")
        if len(given) != 1 or not secrets.compare_digest(given[0].encode(), self.token.encode()):
            return "the token is missing or wrong: open the address that the explorer has printed"
        return None
