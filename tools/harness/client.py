"""A plain HTTP/1.1 client: each call on a connection of its own, every byte under control."""

import concurrent.futures
import dataclasses
import http.client
import json


@dataclasses.dataclass
class Reply:
    """One answer."""

    status: int
    header_list: list
    body: bytes

    @property
    def headers(self):
        return {name.lower(): value for name, value in self.header_list}

    def all(self, name):
        return [value for key, value in self.header_list if key.lower() == name]

    def json(self):
        return json.loads(self.body)


def chat(content="tie a knot", **members):
    """The body of a chat completion."""
    return {"model": "m-chat", "messages": [{"role": "user", "content": content}], **members}


def call(port, body=None, path="/v1/chat/completions", headers=None, method="POST", chunk=None, timeout=30, host="llm.test",
         address="127.0.0.1"):
    """Sends one call and reads the whole answer. `chunk`: send the body chunked, in pieces of this size."""
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        sent = {"host": host, "content-type": "application/json", **(headers or {})}
        if chunk and body is not None:
            pieces = (body[at:at + chunk] for at in range(0, len(body), chunk))
            connection.request(method, path, body=pieces, headers=sent, encode_chunked=True)
        else:
            connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        return Reply(response.status, response.getheaders(), response.read())
    finally:
        connection.close()


def parallel(count, action):
    """Runs `action(index)` for all indexes at once and returns the results in order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=count) as pool:
        return list(pool.map(action, range(count)))
