// Reads a list of Kubernetes objects as JSON from standard input and prints, as a JSON list, what their published schema
// says against each: "" when it agrees, null when it is not one of the kinds known here.
import * as gateway from "@kubernetes-models/envoy-gateway/gateway.envoyproxy.io/v1alpha1";
import { EnvoyFilter } from "@kubernetes-models/istio/networking.istio.io/v1alpha3";
import { IstioOperator } from "@kubernetes-models/istio/install.istio.io/v1alpha1";
import { WasmPlugin } from "@kubernetes-models/istio/extensions.istio.io/v1alpha1";

const kinds = [
  EnvoyFilter, IstioOperator, WasmPlugin,
  gateway.BackendTrafficPolicy, gateway.ClientTrafficPolicy, gateway.EnvoyExtensionPolicy, gateway.EnvoyPatchPolicy,
  gateway.EnvoyProxy,
];

function complaint(object) {
  const Kind = kinds.find(kind => kind.kind === object.kind && kind.apiVersion === object.apiVersion);
  if (!Kind) return null;
  try {
    new Kind(object).validate();
    return "";
  } catch (error) {
    return String(error);
  }
}

let text = "";
for await (const chunk of process.stdin) text += chunk;
console.log(JSON.stringify(JSON.parse(text).map(complaint)));
