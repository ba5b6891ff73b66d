// Callers in a closed loop with an official Node client as it comes: `callers.mjs openai|anthropic PORT OPTIONS`.
// Prints one line of JSON: calls that succeeded, and the failed ones by error.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [kind, port, json] = process.argv.slice(2);
const options = JSON.parse(json);
const defaultHeaders = { "x-tenant": `node-${kind}` };
const outcome = { ok: 0, failed: {}, longest: 0 };
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

function openaiCall() {
  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "sk-test", defaultHeaders });
  return async (content) => {
    const answer = await client.chat.completions.create({ model: "m-chat", messages: [{ role: "user", content }] });
    if (!answer.choices[0].message.content) throw new Error("empty answer");
  };
}

function anthropicCall() {
  const client = new Anthropic({ baseURL: `http://127.0.0.1:${port}`, apiKey: "sk-test", defaultHeaders });
  return async (content) => {
    const answer = await client.messages.create({ model: "m-chat", max_tokens: 100, messages: [{ role: "user", content }] });
    if (!answer.content[0].text) throw new Error("empty answer");
  };
}

async function caller(number, call) {
  const end = performance.now() + options.seconds * 1000;
  await sleep(((number * 0.618) % 1) * options.think);
  for (let count = 1; performance.now() < end; count++) {
    const began = performance.now();
    try {
      await call(`caller ${number} asks for the ${count}. time`);
      outcome.ok += 1;
      outcome.longest = Math.max(outcome.longest, (performance.now() - began) / 1000);
    } catch (error) {
      outcome.failed[error.constructor.name] = (outcome.failed[error.constructor.name] ?? 0) + 1;
    }
    await sleep(options.think * (0.9 + 0.2 * Math.random()));
  }
}

const call = { openai: openaiCall, anthropic: anthropicCall }[kind]();
await Promise.all(Array.from({ length: options.callers }, (_, number) => caller(number, call)));
console.log(JSON.stringify(outcome));
