"""The official OpenAI SDK for Python with relayed endpoints; one line of JSON for each case."""

import base64
import hashlib

import openai
from cases import GIVEN, done, equal, run_case
from openai import OpenAI

client = OpenAI(base_url=GIVEN["base"], api_key="any", max_retries=0, timeout=20)
FILE = base64.b64decode(GIVEN["file"])
SUM = hashlib.sha256(FILE).hexdigest()


def moderation():
    equal(client.moderations.create(input="I will hurt you").results[0].flagged, True)


def transcription():
    equal(client.audio.transcriptions.create(model="hear", file=("a.wav", FILE)).text, f"hear {SUM}")
    text = client.audio.transcriptions.create(model="hear", file=("a.wav", FILE), response_format="text")
    equal(text, f"hear {SUM}")


def translation():
    equal(client.audio.translations.create(model="hear", file=("a.wav", FILE)).text, f"hear {SUM}")


def speech():
    with client.audio.speech.with_streaming_response.create(model="speak", input="hi", voice="alloy") as answer:
        equal(hashlib.sha256(b"".join(answer.iter_bytes())).hexdigest(), GIVEN["speech"])


def images():
    whole = client.images.generate(model="draw", prompt="a cat", n=2)
    equal([one.b64_json for one in whole.data], [GIVEN["picture"]] * 2)
    events = client.images.generate(model="draw", prompt="a cat", stream=True)
    equal([event.type for event in events], ["image_generation.partial_image", "image_generation.completed"])


def edits():
    made = client.images.edit(model="draw", prompt="a hat", image=[("a.png", FILE), ("b.png", FILE[1:])])
    equal([one.b64_json for one in made.data], [SUM, hashlib.sha256(FILE[1:]).hexdigest()])
    varied = client.images.create_variation(model="draw", image=("a.png", FILE))
    equal([one.b64_json for one in varied.data], [SUM])


for case in (moderation, transcription, translation, speech, images, edits):
    run_case(case.__name__, case)
done(openai.__version__)
