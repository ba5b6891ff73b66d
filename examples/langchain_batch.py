"""A batch of a LangChain model behind the gate: `max_retries` is all that it needs."""

import os
import time

from langchain_openai import ChatOpenAI

GATE = os.environ.get("GATE_URL", "http://127.0.0.1:10000")

model = ChatOpenAI(
    model="m-chat",
    base_url=f"{GATE}/v1",
    api_key="not needed by the mock provider",
    max_tokens=200,
    max_retries=8,
    default_headers={"x-tenant": "crawler", "x-priority": "low"},
)

start = time.monotonic()
answers = model.batch([f"Name knot number {number}." for number in range(12)], config={"max_concurrency": 12})
print(f"{len(answers)} answers in {time.monotonic() - start:.1f} s")
