"""Google's SDK for Python as for Vertex AI, with a project and with the token of an account."""

import client_google
from client_google import ERROR, VERSION  # noqa: F401
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials


class Client(client_google.Client):
    def __init__(self, url):
        super().__init__(url)
        options = types.HttpOptions(base_url=url, timeout=20_000)
        account = Credentials("any")
        self.client = genai.Client(
            vertexai=True, project="any", location="us-central1", credentials=account, http_options=options
        )
