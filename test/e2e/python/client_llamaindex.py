"""LlamaIndex with its client for OpenAI-compatible servers."""

from importlib.metadata import version

import openai
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

VERSION = version("llama-index-llms-openai-like")
# It raises the errors of the underlying SDK.
ERROR = openai.APIStatusError

QUESTION = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", content="What is the weather in Paris and in Tokyo?"),
]


class City(BaseModel):
    city: str
    people: int
    rivers: list[str]


def get_weather(city: str, days: int) -> str:
    """The weather."""
    return f"weather of {city} for {days} days"


TOOL = FunctionTool.from_defaults(fn=get_weather)


class Client:
    def __init__(self, url):
        self.url = url

    def model(self, name):
        return OpenAILike(
            api_base=f"{self.url}/v1",
            api_key="any",
            model=name,
            is_chat_model=True,
            is_function_calling_model=True,
            max_retries=0,
            timeout=20,
            temperature=0.3,
            max_tokens=99,
        )

    def plain(self, model):
        answer = self.model(model).chat(QUESTION)
        usage = answer.raw.usage
        return answer.message.content, (usage.prompt_tokens, usage.completion_tokens)

    def stream(self, model):
        for part in self.model(model).stream_chat(QUESTION):
            yield part.delta

    def tools(self, calling, answering, streamed, result_of):
        llm = self.model(calling)
        asking = {"tools": [TOOL], "chat_history": QUESTION, "allow_parallel_tool_calls": True}
        if streamed:
            *_, first = llm.stream_chat_with_tools(**asking)
        else:
            first = llm.chat_with_tools(**asking)
        calls = [
            {"id": call.tool_id, "name": call.tool_name, "arguments": call.tool_kwargs}
            for call in llm.get_tool_calls_from_response(first)
        ]
        results = [
            ChatMessage(role="tool", content=result_of(call["id"]), additional_kwargs={"tool_call_id": call["id"]})
            for call in calls
        ]
        second = self.model(answering).chat_with_tools(tools=[TOOL], chat_history=[*QUESTION, first.message, *results])
        return calls, second.message.content

    def structured(self, model):
        return self.model(model).as_structured_llm(City).chat(QUESTION).raw.model_dump()
