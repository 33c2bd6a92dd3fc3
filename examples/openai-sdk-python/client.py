import os

from openai import OpenAI

url = os.environ.get("HEADGATE_URL", "http://127.0.0.1:3000")
client = OpenAI(base_url=f"{url}/v1", api_key=os.environ.get("HEADGATE_API_KEY", "any"))
model = "openai/gpt-5-mini"
messages = [{"role": "user", "content": "hello"}]

answer = client.chat.completions.create(model=model, messages=messages)
print(answer.choices[0].message.content)

stream = client.chat.completions.create(model=model, messages=messages, stream=True)
print("".join(event.choices[0].delta.content or "" for event in stream if event.choices))

print(client.responses.create(model=model, input="hello").output_text)
