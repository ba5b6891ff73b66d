"""An Envoy in a network of its own, whose link to the store is cut and mended under load."""

import pathlib
import subprocess
import sys

import pytest

from harness.network import world


def test_an_envoy_whose_link_to_the_store_is_cut_goes_on_alone_and_rejoins():
    start, reason = world()
    if reason:
        pytest.skip(f"##### no network of a test's own can be made here, so no Envoy was cut off: {reason} #####")
    inside = [*start, sys.executable, "-m", "pytest", "-s", str(pathlib.Path(__file__).with_name("cut_off.py"))]
    done = subprocess.run(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150)
    print(done.stdout)
    if done.returncode:
        pytest.fail(done.stdout, pytrace=False)
