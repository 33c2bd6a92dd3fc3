"""The official OpenAI SDK for Python with embeddings; one line of JSON for each case."""

import openai
from cases import GIVEN, done, equal, run_case, thrown
from openai import OpenAI

client = OpenAI(base_url=GIVEN["base"], api_key="any", max_retries=0, timeout=20)


def vectors(model):
    # By default the SDK requests base64 and decodes it.
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
    error = thrown(lambda: client.embeddings.create(model="openai/missing", input="one"), openai.NotFoundError)
    equal(error.code, "model_not_found")


for model in GIVEN["models"]:
    for case in (vectors, one, missing):
        run_case(f"{case.__name__} of {model}", case, model)
done(openai.__version__)
