"""Starts the mock provider and real Envoy for tests, demo and benchmarks."""

from .client import Reply, call, parallel
from .envoy import Envoy, Listener, wasm_filter
from .paths import ROOT, RUN_DIR, module_path
from .processes import free_port
from .provider import Provider, loadgen
from .store import Store

__all__ = [
    "ROOT", "RUN_DIR", "Envoy", "Listener", "Provider", "Reply", "Store", "call", "free_port", "loadgen", "module_path",
    "parallel", "wasm_filter",
]
