"""Counting, embeddings, lists and files by the SDKs of Google, Anthropic and AWS; one line of JSON for each case."""

import json

import anthropic
import boto3
import client_anthropic
import client_boto3
import client_google
import client_google_vertex
import client_vertex
from botocore.config import Config
from botocore.exceptions import ClientError
from cases import GIVEN, done, equal, run_case, thrown

URL = GIVEN["url"]
MODEL = f"{GIVEN['model']}/text"
BODY = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}


# A client that is not kept is closed.
GOOGLE = client_google.Client(URL).client
VERTEX = client_google_vertex.Client(URL).client


def count_gemini():
    assert GOOGLE.models.count_tokens(model=MODEL, contents="What is the weather?").total_tokens > 3


def count_gemini_vertex():
    assert VERTEX.models.count_tokens(model=MODEL, contents="What is the weather?").total_tokens > 3


def embed_gemini():
    answer = GOOGLE.models.embed_content(model="gemini/text", contents=["one", "two"])
    equal([vector.values for vector in answer.embeddings], [[0.25, -0.5]] * 2)


def list_gemini():
    names = [model.name for model in GOOGLE.models.list()]
    assert f"models/{MODEL}" in names or "models/text" in names, names


def get_gemini():
    equal(GOOGLE.models.get(model=MODEL).name, f"models/{MODEL}")


def files_gemini():
    error = thrown(lambda: list(GOOGLE.files.list()), client_google.ERROR)
    equal(error.code, 404)
    assert "passThrough" in str(error), str(error)


def count_anthropic_vertex():
    client = client_vertex.Client(URL).client
    count = client.messages.count_tokens(model=MODEL, messages=client_anthropic.QUESTION)
    assert count.input_tokens > 3


def list_anthropic():
    names = [model.id for model in anthropic.Anthropic(base_url=URL, api_key="any").models.list()]
    assert MODEL in names or "text" in names, names


def bedrock(service):
    config = Config(retries={"total_max_attempts": 1}, read_timeout=20)
    return boto3.client(service, region_name="us-east-1", endpoint_url=f"{GIVEN['secure']}/bedrock", config=config)


def count_boto3():
    counted = {"invokeModel": {"body": json.dumps(BODY)}}
    assert bedrock("bedrock-runtime").count_tokens(modelId=MODEL, input=counted)["inputTokens"] > 0


def profiles_boto3():
    assert isinstance(bedrock("bedrock").list_inference_profiles()["inferenceProfileSummaries"], list)


def converse_boto3():
    messages = [{"role": "user", "content": [{"text": "hello"}]}]
    error = thrown(lambda: bedrock("bedrock-runtime").converse(modelId=MODEL, messages=messages), ClientError)
    equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 404)
    assert "invoke" in str(error), str(error)


def limited_boto3():
    error = thrown(lambda: client_boto3.Client(GIVEN["secure"]).plain(f"{GIVEN['model']}/limited"), client_boto3.ERROR)
    equal(error.code, 429)
    assert "ThrottlingException" in str(error), str(error)


for case in (
    count_gemini,
    count_gemini_vertex,
    embed_gemini,
    list_gemini,
    get_gemini,
    files_gemini,
    count_anthropic_vertex,
    list_anthropic,
    count_boto3,
    profiles_boto3,
    converse_boto3,
    limited_boto3,
):
    run_case(case.__name__, case)
done(boto3.__version__)
