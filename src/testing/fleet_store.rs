//! The fleet's script in Rust: reads the commands that go to the store and answers them by the rule of [`crate::gate`].
//!
//! The differential test holds it to the real script on a real Redis; the simulator's fleets are decided by it.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use crate::config::ClassId;
use crate::fleet::SCRIPT_HASH;
use crate::fleet::wire::{Answer, hex, unhex};
use crate::gate::{
    Ask, Booking, Decision, Flow, Lease, Ledger, Policy, Reservation, Settlement, TenantKey, WaitReason,
    admit, adopt_remaining, cancel, charge, charge_late, draw, give_back, lend, settle, standings, summary,
};
use crate::units::{Cost, Limits, Resource, Span, Timestamp};
use crate::upstream::UpstreamState;

/// A marker is kept for so long.
const MARKERS: Span = Span::from_secs(120);
/// An Envoy is forgotten after so long.
const BEATS: Span = Span::from_secs(10);

#[derive(Debug)]
struct Pool {
    ledger: Ledger,
    upstream: String,
    markers: BTreeMap<String, String>,
    expiring: VecDeque<(Timestamp, String)>,
    beats: BTreeMap<String, Timestamp>,
}

/// A store that holds the ledgers of a fleet.
#[derive(Debug, Default)]
pub struct FleetStore {
    pools: BTreeMap<String, Pool>,
    loaded: bool,
    /// Operations by their letters.
    pub operations: BTreeMap<char, u64>,
    /// Commands run.
    pub commands: u64,
}

impl FleetStore {
    /// An empty store that does not know the script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins empty, as after a restart.
    pub fn forget(&mut self) {
        self.pools.clear();
        self.loaded = false;
    }

    /// Runs a command as Webdis gets it, at a moment of the store's clock, and says what Webdis answers.
    pub fn run(&mut self, command: &str, now: Timestamp) -> String {
        self.commands += 1;
        let parts: Vec<&str> = command.split('/').collect();
        let (kind, program, count) = (parts[0], parts[1], parts[2]);
        let refused = |error: &str| format!("{{\"{kind}\":[false,\"{error}\"]}}");
        match kind {
            "EVAL" => self.loaded = true,
            "EVALSHA" if !self.loaded || program != SCRIPT_HASH => {
                return refused("NOSCRIPT No matching script. Please use EVAL.");
            }
            "EVALSHA" => {}
            _ => return refused("ERR unknown command"),
        }
        let count: usize = count.parse().unwrap_or(0);
        let (keys, arguments) = parts[3..].split_at(count);
        let pool = keys[0].trim_end_matches(":s");
        let policy = policy(arguments[1]);
        let mut lines = Vec::new();
        for (key, operation) in keys[3..].iter().zip(&arguments[2..]) {
            lines.push(self.operate(pool, &policy, Some(key), operation, now));
        }
        lines.push(self.glance(pool, &policy, now));
        format!("{{\"{kind}\":\"{}\"}}", lines.join(";"))
    }

    fn pool(&mut self, key: &str, now: Timestamp) -> &mut Pool {
        self.pools.entry(key.to_owned()).or_insert_with(|| Pool {
            ledger: Ledger::new(now),
            upstream: String::new(),
            markers: BTreeMap::new(),
            expiring: VecDeque::new(),
            beats: BTreeMap::new(),
        })
    }

    /// Markers that a pool holds.
    pub fn markers(&self, pool: &str) -> usize {
        self.pools.get(pool).map_or(0, |pool| pool.markers.len())
    }

    /// Brings a pool up to the present and says its time.
    pub fn time(&mut self, pool: &str, policy: &Policy, now: Timestamp) -> Timestamp {
        let ledger = &mut self.pool(pool, now).ledger;
        cancel(ledger, policy, &NOBODY, now);
        ledger.time(now)
    }

    /// Does one operation on a pool and says the script's line for it.
    pub fn operate(
        &mut self,
        pool: &str,
        policy: &Policy,
        marker: Option<&str>,
        operation: &str,
        now: Timestamp,
    ) -> String {
        let (kind, rest) = operation.split_at(1);
        let kind = kind.chars().next().unwrap_or(' ');
        *self.operations.entry(kind).or_default() += 1;
        let pool = self.pool(pool, now);
        while pool.expiring.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, old)) = pool.expiring.pop_front() {
                pool.markers.remove(&old);
            }
        }
        if kind == 'h' {
            pool.beats.insert(rest.to_owned(), now);
            pool.beats.retain(|_, seen| now.since(*seen) < BEATS);
            return format!("H,{}", pool.beats.len());
        }
        let done = marker.and_then(|marker| pool.markers.get(marker)).cloned();
        let taken = done.as_ref().is_some_and(|line| line.starts_with('A'));
        if let Some(line) = done.as_ref().filter(|_| !(kind == 'z' || kind == 'c' && !taken)) {
            return line.clone();
        }
        let line = pool.apply(policy, kind, rest, done.as_deref(), now);
        if let Some(marker) = marker
            && pool.markers.insert(marker.to_owned(), line.clone()).is_none()
        {
            pool.expiring.push_back((now.after(MARKERS), marker.to_owned()));
        }
        line
    }

    /// The script's last line: the pool at a glance.
    pub fn glance(&mut self, pool: &str, policy: &Policy, now: Timestamp) -> String {
        let pool = self.pool(pool, now);
        let standings = standings(&pool.ledger, policy, now);
        let summary = summary(&pool.ledger, policy, now, 0);
        let mut out = format!("T,{},", pool.ledger.time(now).as_micros());
        for resource in Resource::ALL {
            let (remaining, reset) =
                standings.get(resource).map_or((0, 0), |found| (found.remaining, found.reset.as_micros()));
            let _ = write!(out, "{remaining},{reset},");
        }
        let _ = write!(
            out,
            "{},{},{},{},{},{}",
            summary.in_flight,
            summary.booked,
            summary.scale_permille,
            summary.paused.unwrap_or_default().as_micros(),
            summary.jain_permille,
            pool.upstream,
        );
        out
    }

    /// Calls that wait in a pool.
    pub fn booked(&mut self, pool: &str, policy: &Policy, now: Timestamp) -> u32 {
        summary(&self.pool(pool, now).ledger, policy, now, 0).booked
    }
}

impl Pool {
    fn apply(
        &mut self,
        policy: &Policy,
        kind: char,
        rest: &str,
        done: Option<&str>,
        now: Timestamp,
    ) -> String {
        let numbers = numbers(rest);
        let ledger = &mut self.ledger;
        match kind {
            'a' => match admit(ledger, policy, &ask(&numbers), now) {
                Decision::Admit(reservation) => said(&Answer::Taken(reservation.taken_at)),
                Decision::Wait(booking, reason) => {
                    said(&Answer::Wait { wait: booking.wait, told: booking.told, reason })
                }
            },
            'c' => {
                if done.is_some() {
                    cancel(ledger, policy, &booking(&numbers), now);
                }
                let ask = ask(&numbers);
                let reservation = match numbers.get(13) {
                    Some(age) => charge_late(ledger, policy, &ask, Span::from_micros(*age), now),
                    None => charge(ledger, policy, &ask, now),
                };
                said(&Answer::Taken(reservation.taken_at))
            }
            'x' => {
                cancel(ledger, policy, &booking(&numbers), now);
                "S".to_owned()
            }
            'z' => {
                let taken =
                    done.and_then(|line| line.strip_prefix("A,")).and_then(|taken| taken.parse().ok());
                if let Some(taken) = taken {
                    let reservation = reservation(&numbers, taken);
                    settle(ledger, policy, &reservation, Settlement::Unused, now);
                } else if done.is_some_and(|line| line.starts_with('W')) {
                    cancel(ledger, policy, &booking(&numbers), now);
                } else if let Some(granted) = done.and_then(|line| line.strip_prefix("L,")) {
                    give_back(ledger, policy, &lease(&self::numbers(granted)), now);
                }
                "S".to_owned()
            }
            'l' => {
                let life = Span::from_micros(numbers[5]);
                said(&Answer::Lent(lend(ledger, policy, &cost(&numbers), life, now)))
            }
            'd' => said(&Answer::Taken(draw(ledger, policy, &ask(&numbers), numbers[13], now).taken_at)),
            'g' => {
                give_back(ledger, policy, &lease(&numbers), now);
                "S".to_owned()
            }
            's' => {
                let used = cost(&numbers[11..]);
                let how = if numbers[10] == 1 { Settlement::Actual(used) } else { Settlement::Unused };
                let settled = settle(ledger, policy, &reservation(&numbers, numbers[9]), how, now);
                said(&Answer::Settled(settled))
            }
            'r' => {
                let resource = Resource::ALL[(numbers[0] as usize).saturating_sub(1)];
                let reset = (!rest.contains('-')).then(|| Span::from_micros(numbers[2]));
                adopt_remaining(ledger, policy, resource, numbers[1], reset, now);
                "S".to_owned()
            }
            'u' => {
                let (old, new) = rest.split_once(',').unwrap_or_default();
                if old != self.upstream {
                    return format!("U,0,{}", self.upstream);
                }
                // The script brings the ledger's time up to the present before everything.
                cancel(ledger, policy, &NOBODY, now);
                new.clone_into(&mut self.upstream);
                ledger.upstream =
                    unhex(new).and_then(|bytes| UpstreamState::decode(&bytes)).unwrap_or_default();
                format!("U,1,{new}")
            }
            _ => String::new(),
        }
    }
}

/// A booking that nobody has.
const NOBODY: Booking = Booking {
    fingerprint: 0,
    flow: Flow { class: ClassId(255), tenant: TenantKey(0), class_weight: 1, tenant_weight: 1 },
    wait: Span::ZERO,
    told: Span::ZERO,
};

/// What is known of a provider, as it is sent.
pub fn encoded(state: &UpstreamState) -> String {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    hex(&bytes)
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap_or(0)).collect()
}

/// Reads the second argument of the script.
fn policy(text: &str) -> Policy {
    let numbers = numbers(text);
    let limit = |index: usize| Some(numbers[index]).filter(|limit| *limit > 0);
    Policy {
        limits: Limits {
            requests: limit(0),
            llm_tokens: limit(1),
            input: limit(2),
            output: limit(3),
            concurrency: limit(4),
        },
        burst: Span::from_micros(numbers[5]),
        strict_window: numbers[6] == 1,
        reservation_ttl: Span::from_micros(numbers[7]),
    }
}

fn flow(numbers: &[u64]) -> Flow {
    Flow {
        class: ClassId(numbers[0] as u8),
        tenant: TenantKey(numbers[1] as u32),
        class_weight: numbers[2] as u32,
        tenant_weight: numbers[3] as u32,
    }
}

fn cost(numbers: &[u64]) -> Cost {
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    Cost { requests: at(0), llm_tokens: at(1), input: at(2), output: at(3), concurrency: at(4) }
}

fn ask(numbers: &[u64]) -> Ask {
    Ask {
        flow: flow(numbers),
        cost: cost(&numbers[4..]),
        fingerprint: numbers[9],
        max_told: Span::from_micros(numbers[10]),
        max_park: Span::from_micros(numbers[11]),
        parked: numbers[12] == 1,
    }
}

fn lease(numbers: &[u64]) -> Lease {
    Lease { ends: numbers[0], amounts: cost(&numbers[1..]) }
}

fn booking(numbers: &[u64]) -> Booking {
    Booking { fingerprint: numbers[9], flow: flow(numbers), wait: Span::ZERO, told: Span::ZERO }
}

fn reservation(numbers: &[u64], taken_at: u64) -> Reservation {
    Reservation { taken_at: Timestamp::from_micros(taken_at), flow: flow(numbers), cost: cost(&numbers[4..]) }
}

fn said(answer: &Answer) -> String {
    match answer {
        Answer::Taken(at) => format!("A,{}", at.as_micros()),
        Answer::Wait { wait, told, reason } => {
            let letter = match reason {
                WaitReason::UpstreamPaused => 'p',
                WaitReason::Exhausted => 'e',
                WaitReason::Concurrency => 'c',
                WaitReason::OverShare => 'o',
            };
            format!("W,{},{},{letter}", wait.as_micros(), told.as_micros())
        }
        Answer::Settled(settled) => {
            let mut out = format!("S,{}", u64::from(settled.late));
            for amounts in [&settled.refunded, &settled.overrun] {
                for resource in Resource::PER_MINUTE {
                    let _ = write!(out, ",{}", amounts.get(resource));
                }
            }
            out
        }
        Answer::Lent(lease) => Resource::ALL.iter().fold(format!("L,{}", lease.ends), |mut out, resource| {
            let _ = write!(out, ",{}", lease.amounts.get(*resource));
            out
        }),
        Answer::Learned(replaced, now) => format!("U,{},{now}", u64::from(*replaced)),
        Answer::Envoys(count) => format!("H,{count}"),
    }
}
