"""The other providers' official clients behind one face, each pointed at a gate and as its users would set it up."""

import re
import time

import boto3
import botocore.config
import botocore.exceptions
import cohere
import ollama
from google import genai
from google.genai import errors as genai_errors
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from mistralai.client.utils import BackoffStrategy, RetryConfig

TEXT = "tie a knot"
MESSAGES = [{"role": "user", "content": TEXT}]
KEY = "not needed by the mock provider"


class Client:
    """`ask` and `stream` return the text, the input and the output LLM tokens as the client tells them."""

    # Directions to the mock provider, where the real one differs from what it plays by itself.
    behave = ""
    # True: comes back at the time it was told. False: by a schedule of its own, so maybe too early.
    obeys = True

    def __init__(self, port, retries=True):
        self.url, self.retries = f"http://127.0.0.1:{port}", retries
        self.open()


class Gemini(Client):
    error, obeys = genai_errors.ClientError, False

    def open(self):
        # Without these options the client never retries; with them it does, whatever the headers say.
        options = genai.types.HttpRetryOptions(attempts=6, initial_delay=1, http_status_codes=[429]) if self.retries else None
        http = genai.types.HttpOptions(base_url=self.url, retry_options=options)
        self.client = genai.Client(api_key=KEY, http_options=http)

    def ask(self):
        answer = self.client.models.generate_content(model="m-chat", contents=TEXT)
        return answer.text, answer.usage_metadata.prompt_token_count, answer.usage_metadata.candidates_token_count

    def stream(self):
        chunks = list(self.client.models.generate_content_stream(model="m-chat", contents=TEXT))
        usage = chunks[-1].usage_metadata
        return "".join(chunk.text or "" for chunk in chunks), usage.prompt_token_count, usage.candidates_token_count

    def status(self, error):
        return error.code


class MistralClient(Client):
    error = SDKError
    # Mistral states usage in every stream.
    behave = "usage=always"

    def open(self):
        strategy = RetryConfig("backoff", BackoffStrategy(500, 60000, 1.5, 120000), True) if self.retries else None
        self.client = Mistral(api_key=KEY, server_url=self.url, retry_config=strategy)

    def ask(self):
        answer = self.client.chat.complete(model="m-chat", messages=MESSAGES)
        return answer.choices[0].message.content, answer.usage.prompt_tokens, answer.usage.completion_tokens

    def stream(self):
        text, usage = "", None
        for event in self.client.chat.stream(model="m-chat", messages=MESSAGES):
            text += "".join(choice.delta.content or "" for choice in event.data.choices)
            usage = event.data.usage or usage
        return text, usage.prompt_tokens, usage.completion_tokens

    def status(self, error):
        return error.status_code


class Cohere(Client):
    error = cohere.TooManyRequestsError

    def open(self):
        self.client = cohere.ClientV2(api_key=KEY, base_url=self.url)
        self.options = None if self.retries else {"max_retries": 0}

    def ask(self):
        answer = self.client.chat(model="m-chat", messages=MESSAGES, request_options=self.options)
        return answer.message.content[0].text, answer.usage.tokens.input_tokens, answer.usage.tokens.output_tokens

    def stream(self):
        # Streams are never retried by this client, but its error has the headers.
        try:
            events = list(self.client.chat_stream(model="m-chat", messages=MESSAGES))
        except cohere.TooManyRequestsError as error:
            time.sleep(int(error.headers["retry-after-ms"]) / 1000)
            events = list(self.client.chat_stream(model="m-chat", messages=MESSAGES))
        text = "".join(event.delta.message.content.text for event in events if event.type == "content-delta")
        (usage,) = [event.delta.usage.tokens for event in events if event.type == "message-end"]
        return text, usage.input_tokens, usage.output_tokens

    def status(self, error):
        return error.status_code


class Ollama(Client):
    error = ollama.ResponseError

    def open(self):
        self.client = ollama.Client(host=self.url)

    def _patient(self, action):
        """This client never retries and hides the headers; the message has the time as well."""
        while True:
            try:
                return action()
            except ollama.ResponseError as error:
                told = re.search(r"in ([0-9.]+) seconds", str(error))
                if not self.retries or error.status_code != 429 or not told:
                    raise
                time.sleep(float(told.group(1)))

    def ask(self):
        answer = self._patient(lambda: self.client.chat(model="m-chat", messages=MESSAGES))
        return answer.message.content, answer.prompt_eval_count, answer.eval_count

    def stream(self):
        parts = self._patient(lambda: list(self.client.chat(model="m-chat", messages=MESSAGES, stream=True)))
        return "".join(part.message.content for part in parts), parts[-1].prompt_eval_count, parts[-1].eval_count

    def status(self, error):
        return error.status_code


class Bedrock(Client):
    error = botocore.exceptions.ClientError
    MESSAGES = [{"role": "user", "content": [{"text": TEXT}]}]

    def open(self):
        config = botocore.config.Config(retries={"mode": "standard", "total_max_attempts": 4 if self.retries else 1})
        self.client = boto3.client(
            "bedrock-runtime", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="AKIATEST",
            aws_secret_access_key=KEY, config=config)

    def ask(self):
        answer = self.client.converse(modelId="m-chat", messages=self.MESSAGES)
        usage = answer["usage"]
        return answer["output"]["message"]["content"][0]["text"], usage["inputTokens"], usage["outputTokens"]

    def stream(self):
        text, usage = "", None
        for event in self.client.converse_stream(modelId="m-chat", messages=self.MESSAGES)["stream"]:
            text += event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
            usage = event.get("metadata", {}).get("usage") or usage
        return text, usage["inputTokens"], usage["outputTokens"]

    def status(self, error):
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


CLIENTS = {"google-genai": Gemini, "mistralai": MistralClient, "cohere": Cohere, "ollama": Ollama, "boto3": Bedrock}
