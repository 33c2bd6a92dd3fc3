"""The official OpenAI SDK for Python with stored responses; one line of JSON for each case.

Every case runs with an upstream of every format; stored-responses.test.ts starts it.
"""

import time

import openai
from cases import GIVEN, done, equal, run_case, thrown
from openai import OpenAI

TEXT = GIVEN["text"]
client = OpenAI(base_url=GIVEN["base"], api_key="any", max_retries=0, timeout=20)


def ended(id):
    for _ in range(1000):
        response = client.responses.retrieve(id)
        if response.status not in ("queued", "in_progress"):
            return response
        time.sleep(0.02)
    raise AssertionError(f"{id} did not end")


def missing(run):
    equal(thrown(run, openai.NotFoundError).code, "response_not_found")


def continued(model):
    first = client.responses.create(model=model, input="My name is Alice.")
    second = client.responses.create(model=model, previous_response_id=first.id, input="What is my name?")
    assert second.previous_response_id == first.id
    assert second.output_text == TEXT, second.output_text


def retrieved(model):
    made = client.responses.create(model=model, input="Hello", metadata={"a": "b"})
    found = client.responses.retrieve(made.id)
    assert found.model_dump() == made.model_dump()
    assert found.metadata == {"a": "b"}


def deleted(model):
    made = client.responses.create(model=model, input="Hello")
    client.responses.delete(made.id)
    missing(lambda: client.responses.retrieve(made.id))


def listed(model):
    made = client.responses.create(model=model, input=[{"role": "user", "content": f"item {n}"} for n in range(5)])
    found = [item.content[0].text for item in client.responses.input_items.list(made.id, order="asc", limit=2)]
    assert found == [f"item {n}" for n in range(5)], found


def polled(model):
    made = client.responses.create(model=model, input="Hello", background=True)
    assert made.status == "queued" and made.background is True
    last = ended(made.id)
    assert last.status == "completed" and last.output_text == TEXT, last


def cancelled(model):
    made = client.responses.create(model=model, input="Hello", background=True)
    assert client.responses.cancel(made.id).status == "cancelled"
    assert client.responses.retrieve(made.id).status == "cancelled"


def resumed(model):
    seen = []
    for event in client.responses.create(model=model, input="Hello", background=True, stream=True):
        seen.append(event)
        if len(seen) == 5:
            break
    id = seen[0].response.id
    rest = list(client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number))
    assert [event.sequence_number for event in seen + rest] == list(range(len(seen) + len(rest)))
    assert rest[-1].type == "response.completed"
    text = "".join(event.delta for event in seen + rest if event.type == "response.output_text.delta")
    assert text == TEXT, text


def unkept(model):
    made = client.responses.create(model=model, input="Hello", store=False)
    missing(lambda: client.responses.retrieve(made.id))
    error = thrown(
        lambda: client.responses.create(model=model, previous_response_id=made.id, input="Hello"),
        openai.BadRequestError,
    )
    equal((error.code, error.param), ("previous_response_not_found", "previous_response_id"))


for provider in GIVEN["providers"]:
    for case in (continued, retrieved, deleted, listed, polled, cancelled, resumed, unkept):
        run_case(f"{case.__name__}, {provider}", case, f"{provider}/m")
done(openai.__version__)
