//! Learning from the upstream over minutes.

use std::collections::BTreeMap;

use abi_host::case::{Answer, Bench, Verdict};

use super::{client_number, sound};

/// Calls admitted in each minute under two tries a second; every `nth` admitted call gets a 429.
fn minutes(bench: &mut Bench, count: usize, nth: Option<u64>) -> Vec<u64> {
    let mut calls = 0;
    let one = |bench: &mut Bench, calls: &mut u64| {
        let mut admitted = 0;
        for _ in 0..120 {
            let id = bench.chat(10);
            if bench.verdict(id) == Verdict::Admit {
                admitted += 1;
                *calls += 1;
                let throttled = nth.is_some_and(|n| calls.is_multiple_of(n));
                let refusal = Answer::status(429, "application/json", "{}").header("retry-after", "89");
                let answer = if throttled { refusal } else { Answer::usage(5, 5) };
                bench.respond(id, &answer);
            }
            bench.host.end(id);
            bench.host.advance_millis(500);
        }
        admitted
    };
    (0..count).map(|_| one(bench, &mut calls)).collect()
}

/// A pool that was throttled for ten minutes is back at its limit within five clean ones.
#[test]
fn case_learn_stuck() {
    let mut bench =
        Bench::with(|config| super::every_pool(config, |pool| pool["learn"]["adapt"] = true.into()));
    let trouble = minutes(&mut bench, 10, Some(3));
    assert!(trouble.iter().sum::<u64>() < 300, "{trouble:?}");
    let clean = minutes(&mut bench, 10, None);
    assert!(clean[5..].iter().all(|n| (57..=60).contains(n)), "{clean:?}");
    sound(&bench);
}

/// After a pause the waiting callers come back spread out, and do not run into the upstream's limit again.
#[test]
fn case_learn_resume() {
    let mut bench = Bench::with(|config| config["max_retry_after_seconds"] = 600.into());
    let first = super::admitted(&mut bench, 10);
    bench.finish(first, &Answer::status(429, "application/json", "{}").header("retry-after", "60"));
    let deadline_ms = 61_000;
    let mut due: BTreeMap<(u64, u32), u32> = (0..200).map(|n| ((u64::from(n) * 10, n), 0)).collect();
    let mut now = 0;
    let mut admitted = Vec::new();
    while let Some(((at, caller), tries)) = due.pop_first() {
        if at > now {
            bench.host.advance_millis(at - now);
            now = at;
        }
        let mut headers = abi_host::case::field_post("/v1/chat/completions");
        headers.add(b"x-request-id", caller.to_string().as_bytes());
        let id = bench.send(headers, &abi_host::case::chat_body(1 + u64::from(caller)));
        match bench.verdict(id) {
            Verdict::Admit => {
                admitted.push(now);
                bench.finish(id, &Answer::usage(1, 1));
            }
            _ => {
                let wait = client_number(&mut bench, id, "retry-after-ms").expect("told") as u64;
                bench.host.end(id);
                assert!(tries < 10, "caller {caller} is refused again and again");
                due.insert((now + wait, caller), tries + 1);
            }
        }
    }
    assert_eq!(admitted.len(), 200);
    assert!(admitted[0] + 1_000 >= deadline_ms, "{} ms: before the pause ended", admitted[0]);
    for start in &admitted {
        let inside = admitted.iter().filter(|at| *at >= start && **at < start + 60_000).count();
        assert!(inside <= 60, "{inside} in a minute: the upstream would refuse again");
    }
    let early = admitted.iter().filter(|at| **at < admitted[0] + 2_000).count();
    assert!(early <= 20, "{early} of 60 in the first two seconds");
}
