//! What is asked of the script and what it answers: a letter and decimal numbers, separated by commas.

use core::fmt::Write as _;

use crate::gate::{
    Ask, Booking, Flow, Lease, Policy, Reservation, Settled, Settlement, Standing, Standings, WaitReason,
};
use crate::units::{Cost, Limits, Resource, Span, Timestamp};

/// No amount or span is said larger than this, so that every number is whole in a double.
const MOST: u64 = 1 << 52;
/// Nor is an amount, so that its product with a minute's microseconds is nearly so.
const MOST_AMOUNT: u64 = 4_000_000_000;

/// One thing to do with a pool's ledger.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Admit or book.
    Admit(&'a Ask),
    /// Take the cost whether it is there or not, unless a decision with the same marker took it already.
    Charge(&'a Ask),
    /// The same for a call that passed so long ago.
    ChargeLate(&'a Ask, Span),
    /// Take back a decision of which nobody heard, whatever it was.
    Undo(&'a Ask),
    /// Lend up to so much for so long.
    Lend(&'a Cost, Span),
    /// Take back a lease of which nobody heard, whatever it was.
    Unlend,
    /// Charge a call that passed on a lease with this end, in exchange for its part of it.
    Draw(&'a Ask, u64),
    /// What is left of a lease is not needed.
    GiveBack(&'a Lease),
    /// An Envoy with this number is there.
    Beat(u64),
    /// Forget a booking.
    Cancel(&'a Booking),
    /// Replace what was reserved by what was used.
    Settle(&'a Reservation, Settlement),
    /// Adopt a provider's remaining amount.
    Adopt(Resource, u64, Option<Span>),
    /// Replace what is known of the provider, if it is still what it was taken from. Both as [`hex`].
    Learn(&'a str, &'a str),
}

/// What became of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Taken at that moment of the store's time.
    Taken(Timestamp),
    /// Lent.
    Lent(Lease),
    /// Booked.
    Wait {
        /// Until its turn.
        wait: Span,
        /// To tell the caller.
        told: Span,
        /// Why.
        reason: WaitReason,
    },
    /// Settled, cancelled or adopted.
    Settled(Settled),
    /// What is known of the provider now, as [`hex`]; and whether that is what was sent.
    Learned(bool, String),
    /// So many Envoys were there lately.
    Envoys(u64),
}

/// What a pool allows, as the script's second argument. A number behind it comes back in the answer.
pub fn policy(policy: &Policy) -> String {
    let Limits { requests, llm_tokens, input, output, concurrency } = policy.limits;
    let mut out = String::new();
    for limit in [requests, llm_tokens, input, output, concurrency] {
        number(&mut out, limit.map_or(0, |limit| limit.min(super::LARGEST_LIMIT)));
    }
    number(&mut out, policy.burst.as_micros());
    number(&mut out, policy.strict_window.into());
    number(&mut out, policy.reservation_ttl.as_micros());
    out
}

impl Operation<'_> {
    /// As one argument of the script.
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(120);
        match self {
            Self::Admit(ask)
            | Self::Charge(ask)
            | Self::ChargeLate(ask, _)
            | Self::Undo(ask)
            | Self::Draw(ask, _) => {
                out.push(match self {
                    Self::Admit(_) => 'a',
                    Self::Charge(_) | Self::ChargeLate(..) => 'c',
                    Self::Draw(..) => 'd',
                    _ => 'z',
                });
                flow(&mut out, &ask.flow);
                cost(&mut out, &ask.cost);
                number(&mut out, print_of(ask.fingerprint));
                number(&mut out, ask.max_told.as_micros());
                number(&mut out, ask.max_park.as_micros());
                number(&mut out, ask.parked.into());
                match self {
                    Self::Draw(_, ends) => number(&mut out, *ends),
                    Self::ChargeLate(_, age) => number(&mut out, age.as_micros()),
                    _ => {}
                }
            }
            Self::Lend(want, life) => {
                out.push('l');
                cost(&mut out, want);
                number(&mut out, life.as_micros());
            }
            Self::Unlend => out.push('z'),
            Self::GiveBack(lease) => {
                out.push('g');
                number(&mut out, lease.ends);
                cost(&mut out, &lease.amounts);
            }
            Self::Beat(envoy) => {
                let _ = write!(out, "h{envoy:x}");
            }
            Self::Cancel(booking) => {
                out.push('x');
                flow(&mut out, &booking.flow);
                cost(&mut out, &Cost::default());
                number(&mut out, print_of(booking.fingerprint));
            }
            Self::Settle(reservation, how) => {
                out.push('s');
                flow(&mut out, &reservation.flow);
                cost(&mut out, &reservation.cost);
                number(&mut out, reservation.taken_at.as_micros());
                let (used, counts) = match how {
                    Settlement::Actual(used) => (*used, 1),
                    Settlement::Unused => (Cost::default(), 0),
                };
                number(&mut out, counts);
                cost(&mut out, &used);
            }
            Self::Adopt(resource, remaining, reset) => {
                out.push('r');
                let index = Resource::ALL.iter().position(|one| one == resource).unwrap_or(0);
                number(&mut out, u64::try_from(index).unwrap_or(0).saturating_add(1));
                number(&mut out, *remaining);
                match reset {
                    Some(reset) => number(&mut out, reset.as_micros()),
                    None => out.push_str("-1,"),
                }
            }
            Self::Learn(old, new) => {
                out.push('u');
                out.push_str(old);
                out.push(',');
                out.push_str(new);
            }
        }
        out
    }
}

impl Answer {
    /// Reads one line of the script's answer. `None`: it is none.
    pub fn read(line: &str) -> Option<Self> {
        let mut parts = line.split(',');
        let kind = parts.next()?;
        let mut next = || parts.next()?.parse::<u64>().ok();
        match kind {
            "A" => Some(Self::Taken(Timestamp::from_micros(next()?))),
            "W" => {
                let (wait, told) = (Span::from_micros(next()?), Span::from_micros(next()?));
                let reason = match parts.next()? {
                    "p" => WaitReason::UpstreamPaused,
                    "e" => WaitReason::Exhausted,
                    "c" => WaitReason::Concurrency,
                    "o" => WaitReason::OverShare,
                    _ => return None,
                };
                Some(Self::Wait { wait, told, reason })
            }
            "S" => {
                let late = next().unwrap_or(0) == 1;
                let mut settled = Settled { late, ..Settled::default() };
                for resource in Resource::PER_MINUTE {
                    *settled.refunded.get_mut(resource) = next().unwrap_or(0);
                }
                for resource in Resource::PER_MINUTE {
                    *settled.overrun.get_mut(resource) = next().unwrap_or(0);
                }
                Some(Self::Settled(settled))
            }
            "L" => {
                let mut lease = Lease { ends: next()?, ..Lease::default() };
                for resource in Resource::ALL {
                    *lease.amounts.get_mut(resource) = next()?;
                }
                Some(Self::Lent(lease))
            }
            "H" => Some(Self::Envoys(next()?)),
            "U" => {
                let replaced = next()? == 1;
                Some(Self::Learned(replaced, parts.next().unwrap_or_default().to_owned()))
            }
            _ => None,
        }
    }
}

/// A pool of the fleet at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// The store's time.
    pub now: Timestamp,
    /// What is left of each limit.
    pub standings: Standings,
    /// Calls in flight.
    pub in_flight: u32,
    /// Calls told to come back and still expected.
    pub booked: u32,
    /// Effective limits in thousandths of the configured ones.
    pub scale_permille: u32,
    /// Rest of the provider's pause.
    pub paused: Span,
    /// Jain's index over the flows that wait, thousandths.
    pub jain_permille: u32,
    /// What is known of the provider, as [`hex`]; empty: nothing.
    pub upstream: String,
    /// The number that was sent along, by which the answer is known for the own one; 0: none.
    pub nonce: u64,
}

impl Glance {
    /// Reads the script's last line. `None`: it is none.
    pub fn read(limits: &Limits, line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix("T,")?.split(',');
        let mut next = || parts.next()?.parse::<u64>().ok();
        let mut glance = Self { now: Timestamp::from_micros(next()?), ..Self::default() };
        for resource in Resource::ALL {
            let (remaining, reset) = (next()?, Span::from_micros(next()?));
            *glance.standings.get_mut(resource) =
                limits.get(resource).map(|limit| Standing { limit, remaining, reset });
        }
        let mut small = || u32::try_from(next()?).ok();
        (glance.in_flight, glance.booked, glance.scale_permille) = (small()?, small()?, small()?);
        glance.paused = Span::from_micros(next()?);
        glance.jain_permille = u32::try_from(next()?).ok()?;
        parts.next().unwrap_or_default().clone_into(&mut glance.upstream);
        glance.nonce = parts.next().and_then(|nonce| nonce.parse().ok()).unwrap_or(0);
        Some(glance)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Reads [`hex`] back; `None` when it is none.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|pair| pair.iter().fold(0_u8, |byte, digit| (byte << 4) | digit)).collect())
}

fn print_of(fingerprint: u64) -> u64 {
    fingerprint & 0x007f_ffff
}

fn number(out: &mut String, value: u64) {
    let _ = write!(out, "{},", value.min(MOST));
}

fn flow(out: &mut String, flow: &Flow) {
    for part in [u32::from(flow.class.0), flow.tenant.0, flow.class_weight, flow.tenant_weight] {
        number(out, u64::from(part));
    }
}

fn cost(out: &mut String, cost: &Cost) {
    for resource in Resource::ALL {
        number(out, (*cost.get(resource)).min(MOST_AMOUNT));
    }
}
