//! Bytes of a ledger: little-endian, versioned, only what is live.
//!
//! ```text
//! "bpl", version, flags, last (u64), shift (i64)
//! upstream block          when learned
//! per busy meter:         missing (u64), time until it refills (u32, us), n (u8): slots of the ring that are not 0. When any: which (u128), then the
//!                         amounts (u32) of these; with n = 255 their sum (u64) and the whole ring, 128 amounts
//! in flight, when any:    grain, ttl, mean (u64 each); n (u8), n times: age (u8), count (u32)
//! usage, when any:        reserved, used (u64 each)
//! queue, when any:        see `codec_queue`
//! ```
//!
//! What lies in memory as it lies in the bytes is copied as a whole: a call on a busy pool without a queue reads and
//! writes a kilobyte, and should not take it apart for the few numbers that change.

use crate::units::Timestamp;
use crate::upstream::UpstreamState;

use super::codec_queue::{decode_queue, encode_queue};
use super::compact::low64;
use super::ledger::Ledger;
use super::meter::{MINUTE, Meter, RING, STRETCHED};
use super::slots::InFlight;
use super::usage::Usage;

/// First bytes of every ledger.
const MAGIC: [u8; 3] = *b"bpl";
/// Version of the layout. A change of the layout counts it up.
const VERSION: u8 = 2;

const STRICT: u16 = 1;
const LEARNED: u16 = 1 << 1;
/// First of four bits, one for each meter.
const FIRST_METER: u16 = 1 << 2;
const IN_FLIGHT: u16 = 1 << 6;
const USAGE: u16 = 1 << 7;
const QUEUE: u16 = 1 << 8;
const KNOWN: u16 = (1 << 9) - 1;

/// In place of the number of slots: all of them follow.
const WHOLE: u8 = u8::MAX;
/// From so many slots on all of them are written.
const MANY: u32 = 96;

/// No clock of a host shows this moment (microseconds; its nanoseconds end 2^54 microseconds after the epoch), and sums of
/// earlier ones and of spans stay exact.
const NEVER: u64 = 1 << 60;

/// Why bytes are not a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerError {
    /// A newer version of this module wrote it.
    Newer,
    /// It is no ledger, or a damaged one.
    Corrupt,
}

impl Ledger {
    /// Reads what [`Ledger::encode`] wrote. Total: any bytes give a ledger or an error.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, LedgerError> {
        let mut ledger = Self::new(Timestamp::EPOCH);
        ledger.reload(bytes).map(|()| ledger)
    }

    /// Like [`Ledger::decode`], into a ledger that is there: nothing of what it held is left, but its memory is.
    ///
    /// # Errors
    /// See [`LedgerError`]; what the ledger then holds means nothing.
    pub fn reload(&mut self, bytes: &[u8]) -> Result<(), LedgerError> {
        let mut reader = Reader { rest: bytes };
        match reader.array::<4>() {
            Some([a, b, c, VERSION]) if [a, b, c] == MAGIC => {}
            Some([a, b, c, version]) if [a, b, c] == MAGIC && version > VERSION => {
                return Err(LedgerError::Newer);
            }
            _ => return Err(LedgerError::Corrupt),
        }
        decode_body(&mut reader, self).filter(|()| reader.rest.is_empty()).ok_or(LedgerError::Corrupt)
    }

    /// Appends the ledger's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |bit: u16, set: bool| if set { bit } else { 0 };
        let mut flags = flag(STRICT, self.period == STRETCHED)
            | flag(LEARNED, self.upstream != UpstreamState::default())
            | flag(IN_FLIGHT, self.in_flight != InFlight::new())
            | flag(USAGE, self.usage != Usage::default())
            | flag(QUEUE, !self.queue.is_forgotten());
        for (index, meter) in self.meters.iter().enumerate() {
            flags |= flag(FIRST_METER << index, !meter.is_idle());
        }
        let ([a, b, c], [d, e]) = (MAGIC, flags.to_le_bytes());
        put(out, [a, b, c, VERSION, d, e]);
        put(out, self.last.to_le_bytes());
        put(out, self.shift.to_le_bytes());
        if flags & LEARNED != 0 {
            self.upstream.encode(out);
        }
        for meter in self.meters.iter().filter(|meter| !meter.is_idle()) {
            encode_meter(meter, self.last, out);
        }
        if flags & IN_FLIGHT != 0 {
            encode_in_flight(&self.in_flight, out);
        }
        if flags & USAGE != 0 {
            put(out, self.usage.reserved.to_le_bytes());
            put(out, self.usage.used.to_le_bytes());
        }
        if flags & QUEUE != 0 {
            encode_queue(&self.queue, out);
        }
    }
}

fn decode_body(reader: &mut Reader<'_>, ledger: &mut Ledger) -> Option<()> {
    let flags = reader.u16()?;
    let last = reader.u64().filter(|last| *last < NEVER)?;
    ledger.reset(Timestamp::from_micros(last));
    ledger.shift = i64::from_le_bytes(reader.array()?);
    ledger.period = if flags & STRICT == 0 { MINUTE } else { STRETCHED };
    if flags & LEARNED != 0 {
        ledger.upstream = UpstreamState::decode(reader.take(UpstreamState::LEN)?)?;
    }
    for (index, meter) in ledger.meters.iter_mut().enumerate() {
        if flags & (FIRST_METER << index) != 0 {
            decode_meter(reader, meter, last)?;
        }
    }
    if flags & IN_FLIGHT != 0 {
        decode_in_flight(reader, &mut ledger.in_flight, last)?;
    }
    if flags & USAGE != 0 {
        ledger.usage = Usage { reserved: reader.u64()?, used: reader.u64()? };
    }
    if flags & QUEUE != 0 {
        decode_queue(reader, &mut ledger.queue)?;
    }
    (flags & !KNOWN == 0).then_some(())
}

fn encode_meter(meter: &Meter, last: u64, out: &mut Vec<u8>) {
    put(out, meter.missing.to_le_bytes());
    let unborn = u32::try_from(meter.refills_from.saturating_sub(last)).unwrap_or(u32::MAX);
    put(out, unborn.to_le_bytes());
    let (ring, filled) = meter.ring();
    let count = filled.count_ones();
    if count >= MANY {
        out.push(WHOLE);
        put(out, filled.to_le_bytes());
        put(out, meter.used().to_le_bytes());
        let cells = ring.map(u32::to_le_bytes);
        out.extend_from_slice(cells.as_flattened());
        return;
    }
    out.push(u8::try_from(count).unwrap_or(0));
    if count > 0 {
        put(out, filled.to_le_bytes());
        let amounts = places(filled).filter_map(|place| ring.get(usize::try_from(place).ok()?));
        amounts.for_each(|amount| put(out, amount.to_le_bytes()));
    }
}

fn decode_meter(reader: &mut Reader<'_>, meter: &mut Meter, last: u64) -> Option<()> {
    meter.missing = reader.u64()?;
    let unborn = u64::from(u32::from_le_bytes(reader.array()?));
    meter.refills_from = if unborn > 0 { last.saturating_add(unborn) } else { 0 };
    let count = reader.byte()?;
    if count == 0 {
        return Some(());
    }
    let filled = u128::from_le_bytes(reader.array()?);
    if count == WHOLE {
        reader.u64()?;
        let (cells, _) = reader.take(RING.saturating_mul(4))?.as_chunks::<4>();
        meter.restore_all(cells.first_chunk()?);
        return Some(());
    }
    for place in places(filled) {
        meter.restore(place, u32::from_le_bytes(reader.array()?));
    }
    Some(())
}

/// Numbers of the bits that are set.
fn places(filled: u128) -> impl Iterator<Item = u32> {
    let (mut left, mut above) = (low64(filled), 0);
    let mut high = low64(filled >> 64);
    core::iter::from_fn(move || {
        if left == 0 {
            (left, above, high) = (high, 64, 0);
        }
        let place = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (place < 64).then_some(place.saturating_add(above))
    })
}

fn encode_in_flight(in_flight: &InFlight, out: &mut Vec<u8>) {
    for part in in_flight.parts() {
        put(out, part.to_le_bytes());
    }
    out.push(u8::try_from(in_flight.live_slots()).unwrap_or(0));
    for (age, count) in in_flight.live() {
        let [a, b, c, d] = count.to_le_bytes();
        put(out, [age, a, b, c, d]);
    }
}

fn decode_in_flight(reader: &mut Reader<'_>, in_flight: &mut InFlight, now: u64) -> Option<()> {
    in_flight.restore_parts([reader.u64()?, reader.u64()?, reader.u64()?], now);
    for _ in 0..reader.byte()? {
        let [age, a, b, c, d] = reader.array()?;
        in_flight.restore(age, u32::from_le_bytes([a, b, c, d]));
    }
    Some(())
}

pub(crate) fn put<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&bytes);
}

/// What is left to read.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
