"""The official OpenAI SDK for Python with legacy completions; one line of JSON for each case."""

import openai
from cases import GIVEN, done, equal, run_case, thrown
from openai import OpenAI

client = OpenAI(base_url=GIVEN["base"], api_key="any", max_retries=0, timeout=20)


def whole(at):
    answer = client.completions.create(model=f"{at}/text", prompt="Once upon a time", max_tokens=20, echo=True)
    equal(answer.object, "text_completion")
    [choice] = answer.choices
    equal(choice.text, "Once upon a time" + GIVEN["text"])
    equal(choice.finish_reason, "stop")
    equal((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens), (21, 7, 28))
    assert answer._request_id.startswith("req_"), answer._request_id


def streamed(at):
    for wanted in (True, False):
        options = {"stream_options": {"include_usage": True}} if wanted else {}
        text, reasons, usages = "", [], []
        for chunk in client.completions.create(model=f"{at}/text", prompt=["Once"], stream=True, **options):
            for choice in chunk.choices:
                text += choice.text
                reasons.append(choice.finish_reason)
            if chunk.usage:
                usages.append(chunk.usage.total_tokens)
        equal(text, GIVEN["text"])
        equal([reason for reason in reasons if reason], ["stop"])
        equal(usages, [28] if wanted else [])


def refused(at):
    error = thrown(lambda: client.completions.create(model=f"{at}/text", prompt=["a", "b"]), openai.BadRequestError)
    equal((error.param, error.code), ("prompt", "unsupported_parameter"))


for kind in GIVEN["kinds"]:
    for case in (whole, streamed, refused):
        run_case(f"{case.__name__} over {kind}", case, kind)
done(openai.__version__)
