//! Bytes of a ledger: little-endian, versioned, only what is live.

use crate::units::Timestamp;
use crate::upstream::UpstreamState;

use super::ledger::Ledger;
use super::meter::{MINUTE, Meter, STRETCHED, WINDOW_SLOTS, slot_of};
use super::queue::{ALL_RETURN, Call, FlowState, MAX_CALLS, MAX_FLOWS, Queue};
use super::slots::InFlight;

/// First bytes of every ledger.
const MAGIC: [u8; 3] = *b"bpl";
/// Version of the layout. A change of the layout counts it up.
const VERSION: u8 = 1;

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
            Some([a, b, c, version]) if [a, b, c] == MAGIC => match version {
                VERSION => {}
                newer if newer > VERSION => return Err(LedgerError::Newer),
                _ => return Err(LedgerError::Corrupt),
            },
            _ => return Err(LedgerError::Corrupt),
        }
        decode_body(&mut reader).filter(|_| reader.rest.is_empty()).ok_or(LedgerError::Corrupt)
    }

    /// Appends the ledger's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        let learned = self.upstream != UpstreamState::default();
        let mut flags = u8::from(self.period == STRETCHED) | (u8::from(learned) << 1);
        for (bit, meter) in (2_u8..).zip(&self.meters) {
            flags |= u8::from(!meter.is_idle()) << bit;
        }
        out.push(flags);
        put(out, self.last.to_le_bytes());
        put(out, self.shift.to_le_bytes());
        if learned {
            self.upstream.encode(out);
        }
        for meter in self.meters.iter().filter(|meter| !meter.is_idle()) {
            encode_meter(meter, out);
        }
        encode_in_flight(&self.in_flight, out);
        encode_queue(&self.queue, self.last / 1_000, out);
    }
}

fn decode_body(reader: &mut Reader<'_>) -> Option<Ledger> {
    let flags = reader.byte()?;
    let last = reader.u64()?;
    let mut ledger = Ledger::new(Timestamp::from_micros(last));
    ledger.shift = i64::from_le_bytes(reader.array()?);
    ledger.period = if flags & 1 == 0 { MINUTE } else { STRETCHED };
    if flags & 2 != 0 {
        ledger.upstream = UpstreamState::decode(reader.take(UpstreamState::LEN)?)?;
    }
    for (bit, meter) in (2_u8..).zip(&mut ledger.meters) {
        if flags & (1 << bit) != 0 {
            decode_meter(reader, meter)?;
        }
    }
    ledger.in_flight = decode_in_flight(reader)?;
    ledger.queue = decode_queue(reader, last / 1_000)?;
    (flags & 0xc0 == 0 && slot_of(last) == ledger.meters.first()?.head()).then_some(ledger)
}

fn encode_meter(meter: &Meter, out: &mut Vec<u8>) {
    put(out, meter.missing.to_le_bytes());
    let ages = || (0..WINDOW_SLOTS).map(|age| (age, meter.slot(meter.head().wrapping_sub(age))));
    let (mut filled, mut largest) = (0_u128, 0_u64);
    for (age, amount) in ages() {
        if amount > 0 {
            filled |= 1 << age;
            largest = largest.max(amount);
        }
    }
    let wide = u32::try_from(largest).is_err();
    put(out, (filled | (u128::from(wide) << 127)).to_le_bytes());
    for (_, amount) in ages().filter(|&(_, amount)| amount > 0) {
        match (wide, u32::try_from(amount)) {
            (false, Ok(amount)) => put(out, amount.to_le_bytes()),
            _ => put(out, amount.to_le_bytes()),
        }
    }
}

fn decode_meter(reader: &mut Reader<'_>, meter: &mut Meter) -> Option<()> {
    meter.missing = reader.u64()?;
    let bits = u128::from_le_bytes(reader.array()?);
    let wide = bits >> 127 != 0;
    let mut filled = bits & !(1 << 127);
    if filled >> WINDOW_SLOTS != 0 {
        return None;
    }
    while filled != 0 {
        let age = u64::from(filled.trailing_zeros());
        filled &= filled.wrapping_sub(1);
        let amount = if wide { reader.u64()? } else { reader.u32()?.into() };
        meter.add(meter.head().checked_sub(age)?, amount);
    }
    Some(())
}

fn encode_in_flight(in_flight: &InFlight, out: &mut Vec<u8>) {
    let (grain, ttl, head, mean) = in_flight.parts();
    for part in [grain, ttl, head, mean] {
        put(out, part.to_le_bytes());
    }
    let live = u8::try_from(in_flight.live().count()).unwrap_or(0);
    out.push(live);
    for (age, count) in in_flight.live() {
        out.push(age);
        put(out, count.to_le_bytes());
    }
}

fn decode_in_flight(reader: &mut Reader<'_>) -> Option<InFlight> {
    let (grain, ttl, head, mean) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
    let mut in_flight = InFlight::from_parts(grain, ttl, head, mean);
    for _ in 0..reader.byte()? {
        let age = reader.byte()?;
        in_flight.restore(age, reader.u32()?);
    }
    Some(in_flight)
}

fn encode_queue(queue: &Queue, now: u64, out: &mut Vec<u8>) {
    put(out, queue.virtual_time.to_le_bytes());
    put(out, u16::try_from(queue.flows.len()).unwrap_or(u16::MAX).to_le_bytes());
    for flow in &queue.flows {
        out.push(flow.class);
        put(out, flow.tenant.to_le_bytes());
        put(out, flow.class_weight.to_le_bytes());
        put(out, flow.tenant_weight.to_le_bytes());
        put(out, flow.finish.to_le_bytes());
        put(out, flow.return_rate.to_le_bytes());
        put(out, flow.waiting.to_le_bytes());
    }
    for call in &queue.calls {
        put(out, call.print.to_le_bytes());
        for time in [call.due, call.back] {
            let ahead = time.saturating_add(1 << 16).saturating_sub(now);
            put(out, u32::try_from(ahead).unwrap_or(u32::MAX).to_le_bytes());
        }
        for amount in call.amounts {
            put(out, amount.to_le_bytes());
        }
    }
}

fn decode_queue(reader: &mut Reader<'_>, now: u64) -> Option<Queue> {
    let virtual_time = reader.u64()?;
    let flows = usize::from(reader.u16()?);
    if flows > MAX_FLOWS {
        return None;
    }
    let mut queue = Queue { flows: Vec::with_capacity(flows), calls: Vec::new(), virtual_time };
    let mut waiting = 0_usize;
    for _ in 0..flows {
        let flow = FlowState {
            class: reader.byte()?,
            tenant: reader.u32()?,
            class_weight: reader.u16()?.clamp(1, 1_000),
            tenant_weight: reader.u16()?.clamp(1, 1_000),
            finish: reader.u64()?,
            return_rate: reader.u16()?.min(ALL_RETURN),
            waiting: reader.u16()?,
        };
        if queue.flows.last().is_some_and(|before| before.key() >= flow.key()) {
            return None;
        }
        waiting = waiting.saturating_add(flow.waiting.into());
        queue.flows.push(flow);
    }
    if waiting > MAX_CALLS {
        return None;
    }
    queue.calls.reserve_exact(waiting);
    for _ in 0..waiting {
        let print = reader.u32()?;
        let mut time = || Some(now.saturating_add(reader.u32()?.into()).saturating_sub(1 << 16));
        let (due, back) = (time()?, time()?);
        let amounts = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        queue.calls.push(Call { print, due, back, amounts });
    }
    Some(queue)
}

fn put<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&bytes);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
