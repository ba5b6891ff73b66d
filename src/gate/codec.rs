//! Bytes of a ledger: little-endian, versioned, only what is live.
//!
//! ```text
//! "bpl", version, flags, last (u64), shift (i64)
//! upstream block          when learned
//! per busy meter:         missing (u64); n (u8), n times: age (u8), amount (u32)
//!                         or 128 + n (u8), the amounts (u32) of the newest n slots, oldest first
//! in flight, when any:    grain, ttl, mean (u64 each); n (u8), n times: age (u8), count (u32)
//! usage, when any:        reserved, used (u64 each)
//! queue, when any:        virtual time, decays (u64 each), flows (u16), the flows, the calls
//! ```

use crate::units::Timestamp;
use crate::upstream::UpstreamState;

use super::codec_queue::{decode_queue, encode_queue};
use super::ledger::Ledger;
use super::meter::{MINUTE, Meter, STRETCHED};
use super::queue::Queue;
use super::slots::InFlight;
use super::usage::Usage;

/// First bytes of every ledger.
const MAGIC: [u8; 3] = *b"bpl";
/// Version of the layout. A change of the layout counts it up.
const VERSION: u8 = 1;

const STRICT: u16 = 1;
const LEARNED: u16 = 1 << 1;
/// First of four bits, one for each meter.
const FIRST_METER: u16 = 1 << 2;
const IN_FLIGHT: u16 = 1 << 6;
const USAGE: u16 = 1 << 7;
const QUEUE: u16 = 1 << 8;
const KNOWN: u16 = (1 << 9) - 1;

/// With it, a meter's slots follow one after the other; without, each with its age.
const DENSE: u8 = 0x80;

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
        let mut reader = Reader { rest: bytes };
        match reader.array::<4>() {
            Some([a, b, c, VERSION]) if [a, b, c] == MAGIC => {}
            Some([a, b, c, version]) if [a, b, c] == MAGIC && version > VERSION => {
                return Err(LedgerError::Newer);
            }
            _ => return Err(LedgerError::Corrupt),
        }
        decode_body(&mut reader).filter(|_| reader.rest.is_empty()).ok_or(LedgerError::Corrupt)
    }

    /// Appends the ledger's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        let flag = |bit: u16, set: bool| if set { bit } else { 0 };
        let mut flags = flag(STRICT, self.period == STRETCHED)
            | flag(LEARNED, self.upstream != UpstreamState::default())
            | flag(IN_FLIGHT, self.in_flight != InFlight::new())
            | flag(USAGE, self.usage != Usage::default())
            | flag(QUEUE, self.queue != Queue::default());
        for (index, meter) in self.meters.iter().enumerate() {
            flags |= flag(FIRST_METER << index, !meter.is_idle());
        }
        put(out, flags.to_le_bytes());
        put(out, self.last.to_le_bytes());
        put(out, self.shift.to_le_bytes());
        if flags & LEARNED != 0 {
            self.upstream.encode(out);
        }
        for meter in self.meters.iter().filter(|meter| !meter.is_idle()) {
            encode_meter(meter, out);
        }
        if flags & IN_FLIGHT != 0 {
            encode_in_flight(&self.in_flight, out);
        }
        if flags & USAGE != 0 {
            put(out, self.usage.reserved.to_le_bytes());
            put(out, self.usage.used.to_le_bytes());
        }
        if flags & QUEUE != 0 {
            encode_queue(&self.queue, self.last / 1_000, out);
        }
    }
}

fn decode_body(reader: &mut Reader<'_>) -> Option<Ledger> {
    let flags = reader.u16()?;
    let last = reader.u64()?;
    let mut ledger = Ledger::new(Timestamp::from_micros(last));
    ledger.shift = i64::from_le_bytes(reader.array()?);
    ledger.period = if flags & STRICT == 0 { MINUTE } else { STRETCHED };
    if flags & LEARNED != 0 {
        ledger.upstream = UpstreamState::decode(reader.take(UpstreamState::LEN)?)?;
    }
    for (index, meter) in ledger.meters.iter_mut().enumerate() {
        if flags & (FIRST_METER << index) != 0 {
            decode_meter(reader, meter)?;
        }
    }
    if flags & IN_FLIGHT != 0 {
        ledger.in_flight = decode_in_flight(reader, last)?;
    }
    if flags & USAGE != 0 {
        ledger.usage = Usage { reserved: reader.u64()?, used: reader.u64()? };
    }
    if flags & QUEUE != 0 {
        ledger.queue = decode_queue(reader, last / 1_000)?;
    }
    (flags & !KNOWN == 0).then_some(ledger)
}

fn encode_meter(meter: &Meter, out: &mut Vec<u8>) {
    put(out, meter.missing.to_le_bytes());
    if meter.used() == 0 {
        out.push(0);
        return;
    }
    let count = meter.counting();
    let filled = meter.filled();
    let leading = meter.slots().position(|slot| slot > 0).and_then(|slots| u8::try_from(slots).ok());
    let span = count.saturating_sub(leading.unwrap_or(0));
    if u32::from(filled).saturating_mul(5) < u32::from(span).saturating_mul(4) {
        out.push(filled);
        let mut age = count;
        meter.slots().for_each(|slot| {
            age = age.saturating_sub(1);
            if slot > 0 {
                let [a, b, c, d] = slot.to_le_bytes();
                put(out, [age, a, b, c, d]);
            }
        });
    } else {
        out.push(DENSE | span);
        let mut cells = [[0_u8; 4]; 128];
        let mut free = cells.iter_mut();
        meter.slots().for_each(|slot| {
            if let Some(cell) = free.next() {
                *cell = slot.to_le_bytes();
            }
        });
        let used = cells.get(usize::from(count.saturating_sub(span))..usize::from(count)).unwrap_or_default();
        out.extend_from_slice(used.as_flattened());
    }
}

fn decode_meter(reader: &mut Reader<'_>, meter: &mut Meter) -> Option<()> {
    meter.missing = reader.u64()?;
    let count = reader.byte()?;
    if count & DENSE == 0 {
        for _ in 0..count {
            let [age, a, b, c, d] = reader.array()?;
            meter.add(meter.head().checked_sub(age.into())?, u32::from_le_bytes([a, b, c, d]).into());
        }
        return Some(());
    }
    let span = count & !DENSE;
    let (cells, _) = reader.take(usize::from(span).saturating_mul(4))?.as_chunks::<4>();
    meter.fill(cells.iter().map(|cell| u32::from_le_bytes(*cell)), span.into())
}

fn encode_in_flight(in_flight: &InFlight, out: &mut Vec<u8>) {
    for part in in_flight.parts() {
        put(out, part.to_le_bytes());
    }
    let at = out.len();
    out.push(0);
    let mut live = 0_u8;
    for (age, count) in in_flight.live() {
        out.push(age);
        put(out, count.to_le_bytes());
        live = live.saturating_add(1);
    }
    if let Some(count) = out.get_mut(at) {
        *count = live;
    }
}

fn decode_in_flight(reader: &mut Reader<'_>, now: u64) -> Option<InFlight> {
    let parts = [reader.u64()?, reader.u64()?, reader.u64()?];
    let mut in_flight = InFlight::from_parts(parts, now);
    for _ in 0..reader.byte()? {
        let age = reader.byte()?;
        in_flight.restore(age, reader.u32()?);
    }
    Some(in_flight)
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

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
