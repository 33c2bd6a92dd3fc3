"""The official Anthropic SDK for Python as for Vertex AI, with the gateway in place of the cloud."""

import anthropic
import client_anthropic
from client_anthropic import ERROR, VERSION  # noqa: F401


class Client(client_anthropic.Client):
    def __init__(self, url):
        self.client = anthropic.AnthropicVertex(
            base_url=f"{url}/vertex/v1",
            access_token="any",
            project_id="any",
            region="us-east5",
            max_retries=0,
            timeout=20,
        )
