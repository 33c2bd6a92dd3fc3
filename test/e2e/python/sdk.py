"""The official OpenAI SDK for Python against a running gateway; one line of JSON for each case.

The cases are those of sdk-node.test.ts: both client styles over upstreams of three wire formats, whose names and answers
the starting program passes (see support/three-kinds.ts).
"""

import asyncio
import json

import openai
from cases import GIVEN, done, equal, run_case, thrown
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

BASE, KINDS, TEXT, CALLS, CITY = (GIVEN[name] for name in ("base", "kinds", "text", "calls", "city"))
EXPECTED = [{**call, "arguments": json.loads(call["arguments"])} for call in CALLS]

client = OpenAI(base_url=BASE, api_key="any", max_retries=0, timeout=20)
QUESTION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The weather?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "The weather.", "parameters": PARAMETERS, "strict": True}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
RESPONSE_TOOLS = [{"type": "function", **FUNCTION}]


class City(BaseModel):
    city: str
    people: int
    rivers: list[str]


def chat_calls(calls):
    return [
        {"id": call.id, "name": call.function.name, "arguments": json.loads(call.function.arguments)}
        for call in calls or []
    ]


def response_calls(output):
    return [
        {"id": item.call_id, "name": item.name, "arguments": json.loads(item.arguments)}
        for item in output
        if item.type == "function_call"
    ]


# ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────


def chat_answer(at):
    answer = client.chat.completions.create(model=f"{at}/text", messages=QUESTION, temperature=0.3)
    [choice] = answer.choices
    equal(choice.message.content, TEXT)
    equal(choice.finish_reason, "stop")
    equal((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens), (21, 7, 28))
    assert answer._request_id.startswith("req_"), answer._request_id


def chat_stream(at):
    for wanted in (True, False):
        options = {"stream_options": {"include_usage": True}} if wanted else {}
        content, finishes, usages = "", [], []
        stream = client.chat.completions.create(model=f"{at}/text", messages=QUESTION, stream=True, **options)
        for chunk in stream:
            if chunk.usage:
                usages.append((chunk.usage.prompt_tokens, chunk.usage.completion_tokens))
            for choice in chunk.choices:
                content += choice.delta.content or ""
                if choice.finish_reason:
                    finishes.append(choice.finish_reason)
        equal(content, TEXT)
        equal(finishes, ["stop"])
        equal(usages, [(21, 7)] if wanted else [])


def chat_tools(at):
    first = client.chat.completions.create(model=f"{at}/both", messages=QUESTION, tools=CHAT_TOOLS)
    message = first.choices[0].message
    equal(first.choices[0].finish_reason, "tool_calls")
    equal(message.content, "Let me look.")
    equal(chat_calls(message.tool_calls), EXPECTED)
    results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]
    second = client.chat.completions.create(
        model=f"{at}/text", messages=[*QUESTION, message, *results], tools=CHAT_TOOLS
    )
    equal(second.choices[0].message.content, TEXT)


def chat_stream_helper(at):
    done = []
    with client.chat.completions.stream(model=f"{at}/both", messages=QUESTION, tools=CHAT_TOOLS) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.done":
                done.append(json.loads(event.arguments))
        final = stream.get_final_completion()
    equal(chat_calls(final.choices[0].message.tool_calls), EXPECTED)
    equal(done, [call["arguments"] for call in EXPECTED])
    equal(final.choices[0].message.content, "Let me look.")


def chat_structured(at):
    body = {"model": f"{at}/json", "messages": QUESTION, "response_format": City}
    equal(client.chat.completions.parse(**body).choices[0].message.parsed.model_dump(), CITY)
    with client.chat.completions.stream(**body) as stream:
        equal(stream.get_final_completion().choices[0].message.parsed.model_dump(), CITY)


def chat_cut(at):
    answer = client.chat.completions.create(model=f"{at}/cut", messages=QUESTION, max_completion_tokens=16)
    equal(answer.choices[0].finish_reason, "length")


def chat_async(at):
    async def ask():
        async with AsyncOpenAI(base_url=BASE, api_key="any", max_retries=0, timeout=20) as other:
            content = ""
            stream = await other.chat.completions.create(model=f"{at}/text", messages=QUESTION, stream=True)
            async for chunk in stream:
                content += chunk.choices[0].delta.content or ""
            return content

    equal(asyncio.run(ask()), TEXT)


# ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────


def responses_answer(at):
    answer = client.responses.create(model=f"{at}/text", instructions="Be brief.", input="Hello?", temperature=0.3)
    equal((answer.status, answer.output_text), ("completed", TEXT))
    equal((answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens), (21, 7, 28))
    assert answer._request_id.startswith("req_"), answer._request_id


def responses_stream(at):
    events = list(client.responses.create(model=f"{at}/text", input="Hello?", stream=True))
    equal([event.sequence_number for event in events], list(range(len(events))))
    equal("".join(event.delta for event in events if event.type == "response.output_text.delta"), TEXT)
    equal(events[-1].type, "response.completed")
    usage = events[-1].response.usage
    equal((usage.input_tokens, usage.output_tokens), (21, 7))


def responses_tools(at):
    body = {"model": f"{at}/both", "input": "The weather?", "tools": RESPONSE_TOOLS}
    whole = client.responses.create(**body)
    equal(whole.output_text, "Let me look.")
    equal(response_calls(whole.output), EXPECTED)
    with client.responses.stream(**body) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_response()
    equal(streamed.output_text, "Let me look.")
    equal(response_calls(streamed.output), EXPECTED)
    results = [{"type": "function_call_output", "call_id": call["id"], "output": "rain"} for call in EXPECTED]
    second = client.responses.create(
        model=f"{at}/text",
        input=[{"role": "user", "content": "The weather?"}, *whole.output, *results],
        tools=RESPONSE_TOOLS,
    )
    equal(second.output_text, TEXT)


def responses_structured(at):
    body = {"model": f"{at}/json", "input": "Paris?", "text_format": City}
    equal(client.responses.parse(**body).output_parsed.model_dump(), CITY)
    with client.responses.stream(**body) as stream:
        for _ in stream:
            pass
        equal(stream.get_final_response().output_parsed.model_dump(), CITY)


def responses_cut(at):
    answer = client.responses.create(model=f"{at}/cut", input="Go on.", max_output_tokens=16)
    equal((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
    *_, last = client.responses.create(model=f"{at}/cut", input="Go on.", max_output_tokens=16, stream=True)
    equal(last.type, "response.incomplete")


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────


def chat(model, **more):
    return client.chat.completions.create(model=model, messages=QUESTION, **more)


def responses(model, **more):
    return client.responses.create(model=model, input="x", **more)


def error_bad_request(at):
    for call in (chat, responses):
        for stream in (False, True):
            error = thrown(lambda: call(f"{at}/bad", stream=stream), openai.BadRequestError)
            assert "The temperature is too high for this." in error.message, error.message
            equal(error.response.headers["x-should-retry"], "false")
            assert error.request_id.startswith("req_"), error.request_id


def error_rate_limit(at):
    for call in (chat, responses):
        error = thrown(lambda: call(f"{at}/limited"), openai.RateLimitError)
        equal(error.code, "rate_limited")
        assert 1 <= float(error.response.headers["retry-after"]) <= 7, error.response.headers


def error_broken_stream(at):
    for call in (chat, responses):
        seen = []

        def read():
            for part in call(f"{at}/breaks", stream=True):
                if getattr(part, "type", "") == "response.output_text.delta":
                    seen.append(part.delta)
                elif getattr(part, "choices", None):
                    seen.append(part.choices[0].delta.content or "")

        error = thrown(read, openai.APIError)
        content = "".join(seen)
        assert content and (TEXT * 3).startswith(content), content
        equal(error.code, "stream_interrupted")


def error_upstream_auth(at):
    patient = client.with_options(max_retries=2)
    error = thrown(
        lambda: patient.chat.completions.create(model=f"{at}/locked", messages=QUESTION), openai.InternalServerError
    )
    equal((error.status_code, error.code), (502, "upstream_auth"))
    equal(error.response.headers["x-should-retry"], "false")


# ── Models ───────────────────────────────────────────────────────────────────────────────────────────────────────


def models():
    listed = list(client.models.list())
    ids = [model.id for model in listed]
    for at in KINDS:
        assert f"{at}/text" in ids, ids
    for model in listed:
        equal(client.models.retrieve(model.id).id, model.id)


CASES = [
    chat_answer,
    chat_stream,
    chat_tools,
    chat_stream_helper,
    chat_structured,
    chat_cut,
    chat_async,
    responses_answer,
    responses_stream,
    responses_tools,
    responses_structured,
    responses_cut,
    error_bad_request,
    error_rate_limit,
    error_broken_stream,
    # This case disables the key.
    error_upstream_auth,
]


run_case("models", models)
for kind in KINDS:
    for case in CASES:
        run_case(f"{case.__name__} over {kind}", case, kind)
done(openai.__version__)
