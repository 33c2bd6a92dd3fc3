"""The official OpenAI SDK for Python asking for embeddings; one line of JSON for each case."""

import json
import sys
import traceback

import openai
from openai import OpenAI

GIVEN = json.loads(sys.argv[1])
client = OpenAI(base_url=GIVEN["base"], api_key="any", max_retries=0, timeout=20)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def vectors(model):
    # Without a wish the SDK asks for base64 and decodes it itself.
    for wish in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model=model, input=["one", "three"], **wish)
        equal([entry.embedding for entry in answer.data], GIVEN["vectors"])
        equal([entry.index for entry in answer.data], [0, 1])
        equal(answer.usage.prompt_tokens, answer.usage.total_tokens)
    raw = client.embeddings.create(model=model, input=["one", "three"], encoding_format="base64")
    equal([entry.embedding for entry in raw.data], GIVEN["base64"])


def one(model):
    answer = client.embeddings.create(model=model, input="one")
    equal([entry.embedding for entry in answer.data], GIVEN["vectors"][:1])


def missing(_model):
    try:
        client.embeddings.create(model="openai/missing", input="one")
    except openai.NotFoundError as error:
        equal(error.code, "model_not_found")
        return
    raise AssertionError("nothing was raised")


def run(name, case, *given):
    try:
        case(*given)
        told = {"name": name, "ok": True}
    except Exception:
        told = {"name": name, "ok": False, "error": traceback.format_exc()}
    print(json.dumps(told), flush=True)


for model in GIVEN["models"]:
    for case in (vectors, one, missing):
        run(f"{case.__name__} of {model}", case, model)
print(json.dumps({"done": True}), flush=True)
