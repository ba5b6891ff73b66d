"""The part of Envoy Gateway's v1alpha1 resources that the examples use, as JSON schemas that know no other key.

The published definitions (npm `@kubernetes-models/envoy-gateway`, made from the project's own CRDs) let unknown keys pass, as the
Kubernetes API server does after dropping them. A misspelt key would then silently do nothing, so the keys are restated here from
the API reference, and the examples must satisfy both.
"""


def closed(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def many(items, most):
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def resource(kind, spec):
    return closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "gateway.envoyproxy.io/v1alpha1"},
        kind={"const": kind},
        metadata=closed(["name"], name=TEXT, namespace=TEXT),
        spec=spec,
    )


TEXT = {"type": "string", "minLength": 1}
DURATION = {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}
QUANTITY = {"type": "string", "pattern": "^[1-9]+[0-9]*([EPTGMK]i|[EPTGMk])?$"}
TARGET = closed(
    ["group", "kind", "name"],
    group={"const": "gateway.networking.k8s.io"},
    kind={"enum": ["Gateway", "HTTPRoute", "GRPCRoute"]},
    name=TEXT,
)
TARGETS = many(TARGET, 16)

WASM = closed(
    ["code"],
    name=TEXT,
    rootID=TEXT,
    failOpen={"type": "boolean"},
    code=closed(
        ["type", "image"],
        type={"const": "Image"},
        image=closed(["url"], url=TEXT, sha256={"type": "string", "pattern": "^[a-f0-9]{64}$"}),
        pullPolicy={"enum": ["IfNotPresent", "Always"]},
    ),
    config={"type": "object"},
)

LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
OPERATION = closed(
    ["op"],
    op={"enum": ["add", "remove", "replace", "move", "copy", "test"]},
    jsonPath=TEXT,
    path={"type": "string", "pattern": "^/"},
    value={},
)

SCHEMAS = {
    "EnvoyExtensionPolicy": resource(
        "EnvoyExtensionPolicy", closed(["targetRefs", "wasm"], targetRefs=TARGETS, wasm=many(WASM, 16))),
    "EnvoyPatchPolicy": resource(
        "EnvoyPatchPolicy",
        closed(
            ["type", "targetRef", "jsonPatches"],
            type={"const": "JSONPatch"},
            targetRef=TARGET,
            jsonPatches=many(
                closed(["type", "name", "operation"], type={"const": LISTENER}, name=TEXT, operation=OPERATION), 16),
        )),
    "ClientTrafficPolicy": resource(
        "ClientTrafficPolicy",
        closed(
            ["targetRefs"],
            targetRefs=TARGETS,
            connection=closed(bufferLimit=QUANTITY),
            timeout=closed(http=closed(streamIdleTimeout=DURATION, idleTimeout=DURATION, requestReceivedTimeout=DURATION)),
        )),
    "BackendTrafficPolicy": resource(
        "BackendTrafficPolicy",
        closed(
            ["targetRefs"],
            targetRefs=TARGETS,
            connection=closed(bufferLimit=QUANTITY),
            timeout=closed(http=closed(requestTimeout=DURATION, streamIdleTimeout=DURATION)),
        )),
    "EnvoyProxy": resource(
        "EnvoyProxy",
        closed(
            bootstrap=closed(["value"], type={"enum": ["Merge", "Replace", "JSONPatch"]}, value=TEXT),
            telemetry=closed(accessLog=closed(settings=many(
                closed(
                    ["sinks"],
                    format=closed(["type", "json"], type={"const": "JSON"}, json={"type": "object"}),
                    sinks=many(closed(["type", "file"], type={"const": "File"}, file=closed(["path"], path=TEXT)), 50),
                ), 50))),
        )),
}
