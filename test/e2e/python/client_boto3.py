"""AWS's SDK for Python: Claude by InvokeModel, whole and as a stream of chunks."""

import json

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError
from client_anthropic import QUESTION, TOOLS

VERSION = boto3.__version__
CITY = {
    "name": "city",
    "description": "A city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "people": {"type": "number"},
            "rivers": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city", "people", "rivers"],
    },
}


class ERROR(Exception):
    """An error of the SDK, with its status."""

    def __init__(self, error):
        super().__init__(str(error))
        self.code = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")


def text_in(content):
    return "".join(block["text"] for block in content if block["type"] == "text")


class Client:
    def __init__(self, url):
        # AWS_BEARER_TOKEN_BEDROCK is the key of the gateway.
        config = Config(retries={"total_max_attempts": 1}, read_timeout=20)
        self.client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=f"{url}/bedrock", config=config)

    def asking(self, model, **more):
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 99,
            "system": "Be brief.",
            "messages": QUESTION,
            **more,
        }
        return {"modelId": model, "body": json.dumps(body)}

    def whole(self, model, **more):
        try:
            return json.loads(self.client.invoke_model(**self.asking(model, **more))["body"].read())
        except ClientError as error:
            raise ERROR(error) from error

    def events(self, model, **more):
        try:
            answer = self.client.invoke_model_with_response_stream(**self.asking(model, **more))
            for chunk in answer["body"]:
                yield json.loads(chunk["chunk"]["bytes"])
        except (ClientError, EventStreamError) as error:
            raise ERROR(error) from error

    def plain(self, model):
        message = self.whole(model)
        return text_in(message["content"]), (message["usage"]["input_tokens"], message["usage"]["output_tokens"])

    def stream(self, model):
        for event in self.events(model):
            if event["type"] == "content_block_delta":
                yield event["delta"]["text"]

    def content_of(self, events):
        """The blocks of a stream, as the whole answer has them."""
        blocks, arguments = [], []
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
                arguments.append("")
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "text_delta":
                    blocks[-1]["text"] += delta["text"]
                else:
                    arguments[-1] += delta["partial_json"]
        for block, text in zip(blocks, arguments):
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
        return blocks

    def tools(self, calling, answering, streamed, result_of):
        if streamed:
            content = self.content_of(self.events(calling, tools=TOOLS))
        else:
            content = self.whole(calling, tools=TOOLS)["content"]
        calls = [block for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": result_of(call["id"])} for call in calls]
        turns = [*QUESTION, {"role": "assistant", "content": content}, {"role": "user", "content": results}]
        second = self.whole(answering, tools=TOOLS, messages=turns)
        return [{"id": call["id"], "name": call["name"], "arguments": call["input"]} for call in calls], text_in(
            second["content"]
        )

    def structured(self, model):
        """By a tool that must be called, which is how Claude at Bedrock is given a schema."""
        content = self.whole(model, tools=[CITY], tool_choice={"type": "tool", "name": "city"})["content"]
        (call,) = [block for block in content if block["type"] == "tool_use"]
        return call["input"]
