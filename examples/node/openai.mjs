// Twelve calls at once through the OpenAI SDK for Node. The SDK does all the waiting.
import OpenAI from "openai";

const gate = process.env.GATE_URL ?? "http://127.0.0.1:10000";
const client = new OpenAI({
  baseURL: `${gate}/v1`,
  apiKey: "not needed by the mock provider",
  maxRetries: 8,
  defaultHeaders: { "x-tenant": "acme", "x-priority": "high" },
});
const start = performance.now();

async function ask(number) {
  const answer = await client.chat.completions.create({
    model: "m-chat",
    max_tokens: 200,
    messages: [{ role: "user", content: `Name knot number ${number}.` }],
  });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${seconds.padStart(5)} s  call ${number}  ${answer.usage.total_tokens} tokens`);
}

await Promise.all(Array.from({ length: 12 }, (_, number) => ask(number)));
