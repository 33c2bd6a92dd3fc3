"""The official Anthropic SDK for Python as for Bedrock, with the gateway in place of the cloud."""

import anthropic
import client_anthropic
from client_anthropic import ERROR, VERSION  # noqa: F401


class Client(client_anthropic.Client):
    def __init__(self, url):
        self.client = anthropic.AnthropicBedrock(
            base_url=f"{url}/bedrock", api_key="any", aws_region="us-east-1", max_retries=0, timeout=20
        )
