"""The official Anthropic SDK for Python."""

import anthropic
from pydantic import BaseModel

VERSION = anthropic.__version__
ERROR = anthropic.APIStatusError

QUESTION = [{"role": "user", "content": "What is the weather in Paris and in Tokyo?"}]
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather.",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    }
]


class City(BaseModel):
    city: str
    people: int
    rivers: list[str]


def text_in(message):
    return "".join(block.text for block in message.content if block.type == "text")


class Client:
    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="any", max_retries=0, timeout=20)

    def asking(self, model, **more):
        return {"model": model, "max_tokens": 99, "system": "Be brief.", "messages": QUESTION, **more}

    def plain(self, model):
        message = self.client.messages.create(**self.asking(model))
        assert message._request_id.startswith("req_"), message._request_id
        return text_in(message), (message.usage.input_tokens, message.usage.output_tokens)

    def stream(self, model):
        with self.client.messages.stream(**self.asking(model)) as stream:
            yield from stream.text_stream

    def tools(self, calling, answering, streamed, result_of):
        if streamed:
            with self.client.messages.stream(**self.asking(calling, tools=TOOLS)) as stream:
                first = stream.get_final_message()
        else:
            first = self.client.messages.create(**self.asking(calling, tools=TOOLS))
        assert first.stop_reason == "tool_use", first.stop_reason
        calls = [block for block in first.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": result_of(call.id)} for call in calls]
        turns = [*QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        second = self.client.messages.create(**self.asking(answering, tools=TOOLS, messages=turns))
        return [{"id": call.id, "name": call.name, "arguments": call.input} for call in calls], text_in(second)

    def structured(self, model):
        return self.client.messages.parse(**self.asking(model, output_format=City)).parsed_output.model_dump()
