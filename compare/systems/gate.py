"""This gate: alone, and behind activities of Temporal."""

import json

from harness import Envoy, wasm_filter

from .base import PATH, System
from .temporal import Activities
from loads import PROVIDER_BURST_S


class Gate(System):
    name, title, told = "gate", "this gate", "both caps"

    def settings(self):
        load = self.load
        return {
            "identity": {"class": [{"header": "x-priority"}]},
            "classes": {name: {"weight": one.weight} for name, one in load.classes.items()},
            "default_class": "normal",
            "pools": [{
                "name": "chat",
                "limits": {"requests_per_minute": load.rpm, "tokens_per_minute": load.tpm},
                # A little less than the provider: what is on its way when the load begins does not count there yet.
                "burst_seconds": PROVIDER_BURST_S - 1,
                "strict_window": False,
            }],
        }

    def config(self):
        return json.dumps(self.settings(), indent=2)

    async def start(self, stack, provider_port):
        envoy = stack.enter_context(Envoy(provider_port, [wasm_filter(self.settings())], workers=2))
        return {"url": f"http://127.0.0.1:{envoy.port}{PATH}", "obey": True}


class GateUnderTemporal(Gate, Activities):
    name, title = "gate-temporal", "this gate under Temporal"
    temporal = True

    def config(self):
        return super().config() + "\nraise ApplicationError('refused', next_retry_delay=timedelta(seconds=wait))"


class GateMistold(Gate):
    """The cap is not known: the gate is told twice as much and has to find out from what the provider refuses."""

    name, title, told = "gate-mistold", "this gate, told twice the caps", "nothing true"

    def settings(self):
        out = super().settings()
        pool = out["pools"][0]
        pool["limits"] = {name: 2 * value for name, value in pool["limits"].items()}
        pool["learn"] = {"adapt": True}
        return out
