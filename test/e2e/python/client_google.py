"""Google's SDK for Python."""

import json

from google import genai
from google.genai import errors, types

VERSION = genai.__version__
ERROR = errors.APIError


class Client:
    def __init__(self, url):
        options = types.HttpOptions(base_url=url, timeout=20_000)
        self.client = genai.Client(api_key="any", vertexai=False, http_options=options)
        self.config = {"system_instruction": "Be brief.", "temperature": 0.3, "max_output_tokens": 99}

    def plain(self, model):
        answer = self.client.models.generate_content(model=model, contents=QUESTION, config=self.config)
        usage = answer.usage_metadata
        return answer.text, (usage.prompt_token_count, usage.total_token_count - usage.prompt_token_count)

    def stream(self, model):
        for chunk in self.client.models.generate_content_stream(model=model, contents=QUESTION, config=self.config):
            yield chunk.text

    def tools(self, calling, answering, streamed, result_of):
        config = {**self.config, "tools": [{"function_declarations": [TOOL]}]}
        turn = {"model": calling, "contents": QUESTION, "config": config}
        if streamed:
            answers = list(self.client.models.generate_content_stream(**turn))
        else:
            answers = [self.client.models.generate_content(**turn)]
        parts = [part for answer in answers for part in answer.candidates[0].content.parts or []]
        calls = [part.function_call for part in parts if part.function_call]
        results = [
            {"function_response": {"id": call.id, "name": call.name, "response": {"output": result_of(call.id)}}}
            for call in calls
        ]
        contents = [
            types.Content(role="user", parts=[types.Part(text=QUESTION)]),
            types.Content(role="model", parts=parts),
            types.Content(role="user", parts=[types.Part(**result) for result in results]),
        ]
        second = self.client.models.generate_content(model=answering, contents=contents, config=config)
        return [{"id": call.id, "name": call.name, "arguments": call.args} for call in calls], second.text

    def structured(self, model):
        config = {**self.config, "response_mime_type": "application/json", "response_json_schema": CITY}
        return json.loads(self.client.models.generate_content(model=model, contents=QUESTION, config=config).text)


QUESTION = "What is the weather in Paris and in Tokyo?"
TOOL = {
    "name": "get_weather",
    "description": "The weather.",
    "parameters_json_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "people": {"type": "number"},
        "rivers": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city", "people", "rivers"],
}
