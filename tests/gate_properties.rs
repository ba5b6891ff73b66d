//! What holds over any sequence of events.

mod gate_support;

use envoy_backpressure::gate::{
    Ask, Decision, Ledger, Policy, Reservation, Settlement, admit, cancel, charge, settle, standings, summary,
};
use envoy_backpressure::units::{Cost, Limits, Span};
use gate_support::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Ask { flow: u8, print: u64, llm_tokens: u64 },
    Settle { which: usize, used: u64 },
    Drop { which: usize },
    Unused { which: usize },
    Cancel { which: usize },
    Charge { llm_tokens: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop_oneof![0_u64..50, 0_u64..3_000, 0_u64..90_000].prop_map(Event::Pass),
        10 => (0_u8..4, 0_u64..40, prop_oneof![1_u64..2_000, Just(10_000)])
            .prop_map(|(flow, print, llm_tokens)| Event::Ask { flow, print, llm_tokens }),
        4 => (any::<usize>(), 0_u64..4_000).prop_map(|(which, used)| Event::Settle { which, used }),
        1 => any::<usize>().prop_map(|which| Event::Drop { which }),
        1 => any::<usize>().prop_map(|which| Event::Unused { which }),
        1 => any::<usize>().prop_map(|which| Event::Cancel { which }),
        1 => (1_u64..500).prop_map(|llm_tokens| Event::Charge { llm_tokens }),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    let limits =
        (prop::option::of(1_u64..80), prop::option::of(10_000_u64..40_000), prop::option::of(1_u64..9));
    (limits, 1_u64..=60, any::<bool>()).prop_map(|((requests, llm_tokens, concurrency), burst, strict)| {
        Policy {
            limits: Limits { requests: requests.or(Some(33)), llm_tokens, concurrency, ..Limits::default() },
            burst: Span::from_secs(burst),
            strict_window: strict,
            reservation_ttl: Span::from_secs(100),
        }
    })
}

fn asked(flow: u8, print: u64, llm_tokens: u64, policy: &Policy) -> Ask {
    let most = policy.limits.llm_tokens.unwrap_or(u64::MAX);
    let weight = [1, 2, 4, 1_000][usize::from(flow % 4)];
    Ask { flow: gate_support::flow(flow, u32::from(flow) * 7, weight), ..ask(print, llm_tokens.min(most), 1) }
}

/// What was charged, by the time at which it counts.
#[derive(Default)]
struct Books {
    held: Vec<(Reservation, usize)>,
    charges: Vec<(u64, Cost)>,
    beyond: Vec<(u64, Cost)>,
}

impl Books {
    fn within(entries: &[(u64, Cost)], now: u64, of: impl Fn(&Cost) -> u64) -> u64 {
        entries.iter().filter(|(time, _)| time + 60_000 > now).map(|(_, cost)| of(cost)).sum()
    }
}

/// A ledger that holds something of everything.
fn used_before() -> Ledger {
    let policy = policy(Some(50), Some(9_000), 10, true);
    let mut ledger = Ledger::new(at(0));
    for print in 0..90 {
        admit(&mut ledger, &policy, &ask(print, 500, 2), at(print * 700));
    }
    ledger
}

/// Reads the ledger's bytes into `other`, which holds something else.
fn round_trip(ledger: &Ledger, other: &mut Ledger) {
    let mut bytes = Vec::new();
    ledger.encode(&mut bytes);
    other.reload(&bytes).expect("own bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Reserved plus charged in any trailing minute never exceeds a strict limit by more than overruns and forced
    /// charges; slots in use never exceed the limit; what is told is at least 0; the bytes say everything.
    #[test]
    fn limits_hold_over_any_interleaving(policy in policies(), events in prop::collection::vec(event(), 1..250)) {
        let (mut ledger, mut other) = (Ledger::new(at(0)), used_before());
        let (mut now, mut books, mut bookings) = (0_u64, Books::default(), Vec::new());
        for event in events {
            match event {
                Event::Pass(millis) => now += millis,
                Event::Ask { flow, print, llm_tokens } => {
                    let ask = asked(flow, print, llm_tokens, &policy);
                    match admit(&mut ledger, &policy, &ask, at(now)) {
                        Decision::Admit(reservation) => {
                            books.held.push((reservation, books.charges.len()));
                            books.charges.push((now, reservation.cost));
                            if policy.strict_window {
                                type Amount = fn(&Cost) -> u64;
                                let checks: [(Option<u64>, Amount); 2] = [
                                    (policy.limits.requests, |cost| cost.requests),
                                    (policy.limits.llm_tokens, |cost| cost.llm_tokens),
                                ];
                                for (limit, of) in checks {
                                    let sum = Books::within(&books.charges, now, of);
                                    let beyond = Books::within(&books.beyond, now, of);
                                    let most = limit.map_or(u64::MAX, |limit| limit + beyond);
                                    prop_assert!(sum <= most, "{sum} of {limit:?} and {beyond} at {now}");
                                }
                            }
                        }
                        Decision::Wait(booking, _) => {
                            prop_assert!(booking.told >= Span::from_millis(1) && booking.told <= booking.wait);
                            prop_assert!(booking.told <= ask.max_told);
                            bookings.push(booking);
                        }
                    }
                    let slots = policy.limits.concurrency.unwrap_or(u64::MAX);
                    prop_assert!(u64::from(summary(&ledger, &policy, at(now), 0).in_flight) <= slots.saturating_add(books.beyond.len() as u64));
                }
                Event::Settle { which, used } if !books.held.is_empty() => {
                    let (reservation, index) = books.held.swap_remove(which % books.held.len());
                    let cost = gate_support::cost(used);
                    let settled = settle(&mut ledger, &policy, &reservation, Settlement::Actual(cost), at(now));
                    let reserved = reservation.cost.llm_tokens;
                    prop_assert!(settled.refunded.llm_tokens <= reserved.saturating_sub(used));
                    books.charges[index].1.llm_tokens -= settled.refunded.llm_tokens;
                    let more = Cost { llm_tokens: settled.overrun.llm_tokens, ..Cost::default() };
                    books.charges.push((now, more));
                    books.beyond.push((now, more));
                }
                Event::Unused { which } if !books.held.is_empty() => {
                    let (reservation, index) = books.held.swap_remove(which % books.held.len());
                    let settled = settle(&mut ledger, &policy, &reservation, Settlement::Unused, at(now));
                    books.charges[index].1.llm_tokens -= settled.refunded.llm_tokens;
                    books.charges[index].1.requests -= settled.refunded.requests;
                }
                Event::Drop { which } if !books.held.is_empty() => {
                    books.held.swap_remove(which % books.held.len());
                }
                Event::Cancel { which } if !bookings.is_empty() => {
                    let booking = bookings.swap_remove(which % bookings.len());
                    cancel(&mut ledger, &policy, &booking, at(now));
                }
                Event::Charge { llm_tokens } => {
                    let ask = asked(0, 1, llm_tokens, &policy);
                    let taken = charge(&mut ledger, &policy, &ask, at(now));
                    books.charges.push((now, taken.cost));
                    books.beyond.push((now, taken.cost));
                }
                _ => {}
            }
            round_trip(&ledger, &mut other);
            prop_assert_eq!(&other, &ledger);
            let told = standings(&ledger, &policy, at(now));
            prop_assert!(told.requests.is_none_or(|standing| standing.remaining <= standing.limit));
        }
    }

    /// However a pool got where it is, a lone caller that obeys is admitted at the time it was told.
    #[test]
    fn a_lone_obedient_caller_is_admitted_when_told(
        policy in policies(),
        before in prop::collection::vec((0_u64..3_000, 1_u64..3_000), 0..120),
        llm_tokens in 1_u64..10_000,
    ) {
        let policy = Policy { limits: Limits { concurrency: None, ..policy.limits }, ..policy };
        let mut ledger = Ledger::new(at(0));
        let mut now = 0;
        for (index, (passed, used)) in before.into_iter().enumerate() {
            now += passed;
            let decision = admit(&mut ledger, &policy, &asked(0, 100 + index as u64, used, &policy), at(now));
            if let Decision::Wait(booking, _) = decision {
                cancel(&mut ledger, &policy, &booking, at(now));
            }
        }
        let ask = asked(1, 1, llm_tokens, &policy);
        if let Decision::Wait(booking, _) = admit(&mut ledger, &policy, &ask, at(now)) {
            let due = now + booking.told.as_millis_ceil();
            let decision = admit(&mut ledger, &policy, &ask, at(due));
            prop_assert!(matches!(decision, Decision::Admit(_)), "told {:?}, then {decision:?}", booking.told);
        }
    }

    #[test]
    fn any_bytes_give_a_ledger_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..600), known in any::<bool>()) {
        if known {
            bytes.splice(0..0, *b"bpl\x02");
        }
        if let Ok(mut ledger) = Ledger::decode(&bytes) {
            let policy = policy(Some(10), Some(1_000), 10, true);
            let _ = standings(&ledger, &policy, at(0));
            let _ = admit(&mut ledger, &policy, &ask(1, 10, 1), at(5));
            round_trip(&ledger, &mut used_before());
        }
    }
}
