"""Figures of one run."""

def jain(values):
    """Jain's index: 1 means all equal."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def quantile(waits, part):
    """Kaplan-Meier quantile of `(seconds, happened)`: (value, reached). Not reached: the longest time seen."""
    waits = sorted(waits)
    waiting = 1.0
    for index, (seconds, happened) in enumerate(waits):
        if happened:
            waiting *= 1 - 1 / (len(waits) - index)
            if waiting <= 1 - part + 1e-12:
                return seconds, True
    return (waits[-1][0] if waits else 0.0), False


def figures(load, jobs, warm_up, seconds, provider, others=0.0):
    """`provider`: 429s that it counted. `others`: what callers outside used of the binding limit, as an amount, after the warm-up."""
    minutes = (seconds - warm_up) / 60
    resources = {"requests": load.rpm * minutes, "tokens": load.tpm * minutes}
    entitled = load.entitled()
    out = {"classes": {}}
    available = max(1e-9, resources[load.binding] - others)
    for name in load.classes:
        mine = [job for job in jobs if job.name == name]
        served = [job for job in mine if job.admitted is not None and warm_up <= job.admitted < seconds]
        used = {resource: sum(load.amount(resource, job.cost) for job in served) / all_ for resource, all_ in resources.items()}
        waits = [((job.admitted if job.admitted is not None else seconds) - job.born, job.admitted is not None)
                 for job in mine if job.admitted is None or job.admitted >= warm_up]
        p50, p99 = quantile(waits, 0.5), quantile(waits, 0.99)
        out["classes"][name] = {
            "calls": len(served), "of_entitled": used[load.binding] * resources[load.binding] / available / entitled[name],
            "dominant": max(used.values()) / entitled[name], "p50": p50, "p99": p99, "waiting": sum(not done for _, done in waits)}
    used = sum(load.amount(load.binding, job.cost) for job in jobs if job.admitted is not None and warm_up <= job.admitted < seconds)
    admitted = sum(job.admitted is not None for job in jobs)
    return {
        **out,
        "jain": jain([one["of_entitled"] for one in out["classes"].values()]),
        "drf": jain([one["dominant"] for one in out["classes"].values()]),
        "use": used / available,
        "provider_429s": provider,
        "refusals": sum(job.refusals for job in jobs),
        "errors": sum(job.errors for job in jobs),
        "admitted": admitted,
        "tries_per_admitted": sum(job.tries for job in jobs) / max(1, admitted),
        "slots_held": sum(job.held for job in jobs) / seconds,
    }


def rows(jobs):
    """Raw data: one list per call."""
    return [[job.number, job.name, job.prompt, job.output, round(job.born, 3), None if job.admitted is None else round(job.admitted, 3),
             job.tries, job.refusals, job.errors, round(job.held, 3)] for job in jobs]


COLUMNS = ["number", "class", "prompt", "output", "born", "admitted", "tries", "refusals", "errors", "held"]