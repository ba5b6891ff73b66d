"""Usage that another filter of this Envoy published counts where the gate could not read it."""

import os

import pytest
from gatekit import FREE, config, send, settled
from harness.envoy import HTTP_FILTERS, TYPE

LUA = {"name": "lua", "typed_config": {"@type": f"{HTTP_FILTERS}.lua.v3.Lua", "default_source_code": {"inline_string": """
function envoy_on_response(handle)
  local usage = {input_tokens = 1234, output_tokens = 56, input_token_details = {cached_tokens = 1000}}
  for name, value in pairs(usage) do
    handle:streamInfo():dynamicMetadata():set("envoy.ai.token_usage", name, value)
  end
end"""}}}

READER = {"name": "ai", "typed_config": {
    "@type": f"{HTTP_FILTERS}.ai_protocol_manager.v3.AiProtocolManager",
    "response_handling": {"token_usage": {"include_unconfigured_routes": True}}}}

BROTLI = {"name": "compressor", "typed_config": {
    "@type": f"{HTTP_FILTERS}.compressor.v3.Compressor",
    "response_direction_config": {"common_config": {
        "min_content_length": 1, "content_type": ["application/json", "text/event-stream"]}},
    "compressor_library": {"name": "brotli", "typed_config": {
        "@type": f"{TYPE}/envoy.extensions.compression.brotli.compressor.v3.Brotli"}}}}


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_filter_publishes_is_used(gate, provider, stream):
    envoy = gate(config({"tokens_per_minute": FREE}), after=[LUA])
    assert send(envoy, stream=stream, max_tokens=5000, mock="usage=omit,output=20").status == 200
    assert settled(envoy, "output", 56) == 56
    assert (envoy.metric("tokens", kind="input"), envoy.metric("tokens", kind="cached")) == (234, 1000)
    assert envoy.metric("anomalies", reason="usage_missing") == 0


@pytest.mark.skipif("ENVOY_VERSION" in os.environ, reason="this Envoy has no reader of its own")
@pytest.mark.parametrize("stream", [False, True])
def test_what_envoys_own_reader_publishes_is_used(gate, provider, stream):
    # Compressed after that reader and before the gate, in a way that the gate cannot read.
    envoy = gate(config({"tokens_per_minute": FREE}, top={"force_identity_encoding": False}), after=[BROTLI, READER])
    members = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    reply = send(envoy, max_tokens=5000, mock="output=33", headers={"accept-encoding": "br"}, **members)
    assert reply.status == 200 and reply.headers["content-encoding"] == "br"
    assert settled(envoy, "output", 33) == 33
    assert envoy.metric("tokens", kind="input") == provider.total()["input"]
    assert envoy.metric("anomalies", reason="usage_unreadable") == 0
