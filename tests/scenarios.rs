//! Whole days of a pool in virtual time: callers that never tire, the filter's own session code, and a provider with its
//! own mind about the cap.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used, clippy::panic)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use envoy_backpressure::session::{Session, Verdict};

mod session_support;
use session_support::{START, Worker, chat, usage};

/// A provider that counts real usage in a sliding minute, part of which somebody else uses evenly.
struct Provider {
    requests: u64,
    llm_tokens: u64,
    /// Calls that others send per minute.
    outside: u64,
    window: VecDeque<(u64, u64)>,
    sent_outside: u64,
}

impl Provider {
    /// True when the call is accepted.
    fn arrive(&mut self, millis: u64, llm_tokens: u64) -> bool {
        while self.window.front().is_some_and(|(sent, _)| millis >= sent + 60_000) {
            self.window.pop_front();
        }
        let used: u64 = self.window.iter().map(|(_, amount)| amount).sum();
        let accepted = (self.window.len() as u64) < self.requests && used + llm_tokens <= self.llm_tokens;
        if accepted {
            self.window.push_back((millis, llm_tokens));
        }
        accepted
    }

    /// Lets the others send what is due.
    fn others(&mut self, millis: u64) {
        while self.outside > 0 && self.sent_outside * 60_000 < (millis - START) * self.outside {
            self.sent_outside += 1;
            let due = START + (self.sent_outside - 1) * 60_000 / self.outside;
            self.arrive(due, 0);
        }
    }
}

/// What is played.
struct Scenario {
    pool: &'static str,
    callers: usize,
    /// Declared and real output, duration in ms.
    declared: u32,
    output: u64,
    duration: u64,
    minutes: u64,
    /// The first of the minutes that are counted.
    from: u64,
}

/// What came out in the minutes that are counted.
#[derive(Debug, Default)]
struct Counted {
    accepted: u64,
    refused_by_provider: u64,
}

enum Due {
    Try(usize),
    End(usize, bool),
    Tick,
}

fn play(scenario: &Scenario, mut provider: Provider) -> Counted {
    let mut worker = Worker::new(scenario.pool);
    let mut sessions: Vec<Option<Session>> = (0..scenario.callers).map(|_| None).collect();
    let mut calls = vec![0_u64; scenario.callers];
    let mut order = 0_u64;
    let mut events: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut what = std::collections::HashMap::new();
    let mut push = |events: &mut BinaryHeap<Reverse<(u64, u64)>>,
                    what: &mut std::collections::HashMap<u64, Due>,
                    at,
                    due| {
        order += 1;
        events.push(Reverse((at, order)));
        what.insert(order, due);
    };
    for caller in 0..scenario.callers {
        push(&mut events, &mut what, START + caller as u64 * 7, Due::Try(caller));
    }
    push(&mut events, &mut what, START, Due::Tick);
    let mut counted = Counted::default();
    while let Some(Reverse((at, number))) = events.pop() {
        if at >= START + scenario.minutes * 60_000 {
            break;
        }
        worker.millis = at;
        provider.others(at);
        let measured = u64::from(at >= START + scenario.from * 60_000);
        match what.remove(&number).unwrap() {
            Due::Tick => {
                worker.step(|env| env.suggestions.exchange(env.store, env.recorder));
                push(&mut events, &mut what, at + 500, Due::Tick);
            }
            Due::Try(caller) => {
                // Each caller's own words, so that its returns are known as its own.
                let body =
                    chat(scenario.declared).replace("hello there", &format!("{caller} {}", calls[caller]));
                let (session, verdict) = worker.send(&body);
                match verdict {
                    Verdict::Forward(_) => {
                        calls[caller] += 1;
                        sessions[caller] = Some(session);
                        let accepted = provider.arrive(at, 20 + scenario.output);
                        counted.accepted += measured * u64::from(accepted);
                        counted.refused_by_provider += measured * u64::from(!accepted);
                        let lasts = if accepted { scenario.duration } else { 200 };
                        push(&mut events, &mut what, at + lasts, Due::End(caller, accepted));
                    }
                    Verdict::Answer(answer) => {
                        assert_eq!(answer.status, 429);
                        let told = answer.headers.iter().find(|(name, _)| *name == "retry-after-ms").unwrap();
                        push(&mut events, &mut what, at + told.1.parse::<u64>().unwrap(), Due::Try(caller));
                    }
                    Verdict::Park { .. } | Verdict::Consult(_) => {
                        panic!("nothing waits inside, and no fleet is asked")
                    }
                }
            }
            Due::End(caller, accepted) => {
                let mut session = sessions[caller].take().unwrap();
                if accepted {
                    worker.answer(&mut session, "200", &usage(20, scenario.output));
                } else {
                    worker.answer(&mut session, "429", r#"{"error": {"message": "slow down"}}"#);
                }
                // An agent goes on at once.
                push(&mut events, &mut what, at + 1, Due::Try(caller));
            }
        }
    }
    counted
}

/// Agents that declare 32 000 and use 300, on a pool with default settings.
fn agents(reserve: &'static str, duration: u64) -> Counted {
    let pool = match reserve {
        "learned" => {
            r#"{"name": "chat", "limits": {"tokens_per_minute": 300000}, "output_reserve": "learned", "max_wait_ms": 0}"#
        }
        _ => {
            r#"{"name": "chat", "limits": {"tokens_per_minute": 300000}, "output_reserve": "max_tokens", "max_wait_ms": 0}"#
        }
    };
    let scenario =
        Scenario { pool, callers: 350, declared: 32_000, output: 300, duration, minutes: 4, from: 2 };
    let provider = Provider {
        requests: u64::MAX,
        llm_tokens: 300_000,
        outside: 0,
        window: VecDeque::new(),
        sent_outside: 0,
    };
    play(&scenario, provider)
}

#[test]
fn agents_that_declare_much_pass_twenty_times_as_often_with_a_learned_reserve() {
    let (learned, declared) = (agents("learned", 20_000), agents("max_tokens", 20_000));
    println!("learned {learned:?}, max_tokens {declared:?}");
    assert!(learned.accepted >= 20 * declared.accepted, "{learned:?} against {declared:?}");
    assert_eq!((learned.refused_by_provider, declared.refused_by_provider), (0, 0));
}

#[test]
fn half_of_the_cap_used_by_somebody_else_costs_few_refusals_of_whole_calls() {
    let pool = r#"{"name": "chat", "limits": {"requests_per_minute": 600}, "max_wait_ms": 0, "learn": {"adapt": true}}"#;
    let scenario =
        Scenario { pool, callers: 60, declared: 300, output: 100, duration: 1_000, minutes: 10, from: 1 };
    let provider = Provider {
        requests: 600,
        llm_tokens: u64::MAX,
        outside: 300,
        window: VecDeque::new(),
        sent_outside: 0,
    };
    let counted = play(&scenario, provider);
    println!("{counted:?}");
    let calls = counted.accepted + counted.refused_by_provider;
    assert!(counted.refused_by_provider * 100 <= calls, "{counted:?}");
    // At least three quarters of the free half, over nine minutes.
    assert!(counted.accepted * 4 >= 300 * 9 * 3, "{counted:?}");
}
