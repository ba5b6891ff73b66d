"""One system on one load: `run.py --system gate --load tokens --seed 1 --out FILE`."""

import argparse
import asyncio
import contextlib
import json
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from driver import Driver, Slots
from loads import LOADS, PROVIDER_BURST_S, SLOTS
from measure import COLUMNS, figures, rows
from others import take_half
from systems import SYSTEMS
from systems.temporal import dev_server

from harness import Provider

WARM_UP = 12.0


async def run(options):
    load, system = LOADS[options.load], SYSTEMS[options.system](LOADS[options.load])
    options.seconds = options.seconds or system.seconds
    async with contextlib.AsyncExitStack() as stack:
        provider = stack.enter_context(Provider(rpm=load.rpm, tpm=load.tpm, burst_seconds=PROVIDER_BURST_S))
        arguments = await system.start(stack, provider.port)
        driver = Driver(load, seed=options.seed, hold_slot=options.hold_slot, **arguments)
        if system.temporal:
            address = stack.enter_context(dev_server())
            serve = await stack.enter_async_context(system.serving(driver, address))
        else:
            slots = Slots(driver)
            slots.start()
            serve = slots.serve
        # The bucket of the provider is full again after whatever starting took from it.
        provider.configure(limits={"rpm": load.rpm, "tpm": load.tpm, "burst_seconds": PROVIDER_BURST_S})
        provider.reset()
        begun = time.time()
        outside = asyncio.create_task(take_half(
            load, f"http://127.0.0.1:{provider.port}/v1/chat/completions", load.others_at, options.seconds)) if load.others_at else None
        await driver.run(options.seconds, serve)
        taken = await outside if outside else []
        callers = provider.stats()["callers"]
        limited = sum(counts["limited"] for name, counts in callers.items() if not name.startswith("others/"))
        others = sum(amount for at, amount in taken if options.warm_up <= at < options.seconds)
    jobs = driver.jobs
    return {
        "system": options.system, "load": options.load, "seed": options.seed, "seconds": options.seconds, "warm_up": options.warm_up,
        "begun": round(begun), "slots": SLOTS, "hold_slot": options.hold_slot, "others": others, "lag_p99_ms": driver.lag(),
        "figures": figures(load, jobs, options.warm_up, options.seconds, limited, others),
        "columns": COLUMNS, "calls": rows(jobs),
    }


async def until_stopped(options):
    """The run; SIGTERM ends it and everything that it started."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    return await run(options)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=list(SYSTEMS), required=True)
    parser.add_argument("--load", choices=list(LOADS), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="default: what the system needs")
    parser.add_argument("--warm-up", type=float, default=WARM_UP)
    parser.add_argument("--hold-slot", action="store_true", help="a refused call sleeps in its slot")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    result = asyncio.run(until_stopped(options))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result))
    print(json.dumps(result["figures"], indent=1))


if __name__ == "__main__":
    main()
