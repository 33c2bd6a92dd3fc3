"""A client library over an upstream of every format; one line of JSON for each case.

The cases are those of clients.test.ts. Each library has a module in this folder with the functions called below. The starting
program passes its name, the address and the expected answers.
"""

import importlib
import json

from cases import GIVEN, done, equal, run_case, thrown

library = importlib.import_module(GIVEN["module"])
EXPECTED = [{**call, "arguments": json.loads(call["arguments"])} for call in GIVEN["calls"]]
TEXT = GIVEN["text"]


def problem(run, status, words):
    error = thrown(run)
    assert isinstance(error, library.ERROR), f"{type(error)} is no {library.ERROR}: {error}"
    equal(error.status_code if hasattr(error, "status_code") else error.code, status)
    assert words in str(error), str(error)


def answer(client, at):
    text, tokens = client.plain(f"{at}/text")
    equal(text, TEXT)
    equal(tokens, (21, 7))


def stream(client, at):
    pieces = [piece for piece in client.stream(f"{at}/text") if piece]
    equal("".join(pieces), TEXT)
    assert len(pieces) > 1


def tools(client, at):
    for streamed in (False, True):
        calls, text = client.tools(f"{at}/both", f"{at}/text", streamed, lambda id: f"weather of {id}")
        equal(calls, EXPECTED)
        equal(text, TEXT)


def structured(client, at):
    equal(client.structured(f"{at}/json"), GIVEN["city"])


def errors(client, at):
    problem(lambda: client.plain(f"{at}/bad"), 400, "The temperature is too high for this.")
    problem(lambda: list(client.stream(f"{at}/bad")), 400, "The temperature is too high for this.")
    problem(lambda: client.plain(f"{at}/limited"), 429, "limit")
    problem(lambda: client.plain(f"{at}/down"), 502, "It broke.")


def broken_stream(client, at):
    pieces = []

    def read():
        for piece in client.stream(f"{at}/breaks"):
            pieces.append(piece or "")

    error = thrown(read)
    text = "".join(pieces)
    assert text and (TEXT * 3).startswith(text), text
    assert "The connection was closed before the end of the response" in str(error), repr(error)


for at in GIVEN["providers"]:
    for case in (answer, stream, tools, structured, errors, broken_stream):
        run_case(f"{case.__name__} over {at}", lambda: case(library.Client(GIVEN["url"]), at))
done(library.VERSION)
