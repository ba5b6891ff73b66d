//! Bytes of the queue: 23 a flow, 6 to 13 a call.
//!
//! ```text
//! flow: class (u8), tenant (u32), class weight (10 bits), tenant weight (10 bits), waiting (12 bits),
//!       finish above virtual time, plus 2^38 (u40), return rate (u16), trust (u8), asked, received (u24)
//! call: fingerprint (u24), told time (23 bits of ms, 1 bit: twin), later (8-bit amount, when any);
//!       per kind of LLM token that any call carries: 16-bit amount
//! ```

use super::codec::{Reader, put};
use super::compact::{pack, unpack};
use super::queue::{ALL_RETURN, Call, FlowState, MAX_CALLS, MAX_FLOWS, MOST_BEHIND, Queue};

/// Told times are kept relative to this long before the ledger's time, in milliseconds: longer than the grace.
const BEFORE: u64 = 1 << 14;
const TIMES: u64 = (1 << 23) - 1;

pub(crate) fn encode_queue(queue: &Queue, now: u64, out: &mut Vec<u8>) {
    put(out, queue.virtual_time.to_le_bytes());
    put(out, queue.decays.to_le_bytes());
    put(out, u16::try_from(queue.flows.len()).unwrap_or(u16::MAX).to_le_bytes());
    for flow in &queue.flows {
        encode_flow(flow, queue.virtual_time, out);
    }
    if queue.calls.is_empty() {
        return;
    }
    let any = queue.calls.iter().fold([0_u32; 4], |mut any, call| {
        for (any, amount) in any.iter_mut().zip(call.amounts) {
            *any |= amount;
        }
        any
    });
    let [requests, llm_tokens, input, output] = any.map(|any| any > 0);
    let later = queue.calls.iter().any(|call| call.later > 0);
    let carried = [requests, llm_tokens, input, output, later];
    out.push(carried.iter().zip(0_u8..).fold(0, |bits, (&set, bit)| bits | (u8::from(set) << bit)));
    let width = 6_usize
        .saturating_add(usize::from(later))
        .saturating_add([llm_tokens, input, output].map(usize::from).iter().sum::<usize>().saturating_mul(2));
    out.reserve(width.saturating_mul(queue.calls.len()));
    for call in &queue.calls {
        let told = call.back.saturating_add(BEFORE).saturating_sub(now).min(TIMES) << 1;
        let [a, b, c, _] = call.print.to_le_bytes();
        let [d, e, f, ..] = (told | u64::from(call.twin)).to_le_bytes();
        let [_, kinds @ ..] = call.amounts;
        if let ([true, false, false], [amount, ..]) = ([llm_tokens, input, output], kinds) {
            // By far the most frequent kind of pool.
            let [g, h] = pack(amount).to_le_bytes();
            if later {
                put(out, [a, b, c, d, e, f, call.later, g, h]);
            } else {
                put(out, [a, b, c, d, e, f, g, h]);
            }
            continue;
        }
        put(out, [a, b, c, d, e, f]);
        if later {
            out.push(call.later);
        }
        for (amount, carried) in kinds.into_iter().zip([llm_tokens, input, output]) {
            if carried {
                put(out, pack(amount).to_le_bytes());
            }
        }
    }
}

pub(crate) fn decode_queue(reader: &mut Reader<'_>, now: u64) -> Option<Queue> {
    let mut queue = Queue { virtual_time: reader.u64()?, decays: reader.u64()?, ..Queue::default() };
    let flows = usize::from(reader.u16()?);
    if flows > MAX_FLOWS {
        return None;
    }
    queue.flows.reserve_exact(flows);
    let mut waiting = 0_usize;
    for _ in 0..flows {
        let flow = decode_flow(reader, queue.virtual_time)?;
        if queue.flows.last().is_some_and(|before| before.key() >= flow.key()) {
            return None;
        }
        waiting = waiting.saturating_add(flow.waiting.into());
        queue.flows.push(flow);
    }
    if waiting == 0 {
        return Some(queue);
    }
    if waiting > MAX_CALLS {
        return None;
    }
    let carried = reader.byte()?;
    let has = |bit: u8| carried & (1 << bit) != 0;
    queue.calls.reserve_exact(waiting);
    if carried & 0b0_1110 == 0b0_0010 {
        // By far the most frequent kind of pool.
        let mut add = |[a, b, c, d, e, f]: [u8; 6], later: u8, amount: [u8; 2]| {
            let amounts = [u32::from(has(0)), unpack(u16::from_le_bytes(amount)), 0, 0];
            let told = u32::from_le_bytes([d, e, f, 0]);
            queue.calls.push(Call {
                print: u32::from_le_bytes([a, b, c, 0]),
                back: now.saturating_add(u64::from(told >> 1)).saturating_sub(BEFORE),
                later,
                twin: told & 1 != 0,
                amounts,
            });
        };
        if has(4) {
            let (calls, _) = reader.take(waiting.saturating_mul(9))?.as_chunks::<9>();
            calls.iter().for_each(|&[a, b, c, d, e, f, later, g, h]| add([a, b, c, d, e, f], later, [g, h]));
        } else {
            let (calls, _) = reader.take(waiting.saturating_mul(8))?.as_chunks::<8>();
            calls.iter().for_each(|&[a, b, c, d, e, f, g, h]| add([a, b, c, d, e, f], 0, [g, h]));
        }
        return Some(queue);
    }
    for _ in 0..waiting {
        let [a, b, c, d, e, f] = reader.array()?;
        let told = u32::from_le_bytes([d, e, f, 0]);
        let mut call = Call {
            print: u32::from_le_bytes([a, b, c, 0]),
            back: now.saturating_add(u64::from(told >> 1)).saturating_sub(BEFORE),
            twin: told & 1 != 0,
            ..Call::default()
        };
        if has(4) {
            call.later = reader.byte()?;
        }
        let [requests, llm_tokens, input, output] = &mut call.amounts;
        *requests = u32::from(has(0));
        for (bit, amount) in [(1, llm_tokens), (2, input), (3, output)] {
            if has(bit) {
                *amount = unpack(reader.u16()?);
            }
        }
        queue.calls.push(call);
    }
    Some(queue)
}

fn encode_flow(flow: &FlowState, virtual_time: u64, out: &mut Vec<u8>) {
    out.push(flow.class);
    put(out, flow.tenant.to_le_bytes());
    let weights = u32::from(flow.class_weight) << 10 | u32::from(flow.tenant_weight);
    put(out, (weights << 12 | u32::from(flow.waiting)).to_le_bytes());
    let [a, b, c, d, e, ..] =
        flow.finish.saturating_add(MOST_BEHIND).saturating_sub(virtual_time).to_le_bytes();
    put(out, [a, b, c, d, e]);
    put(out, flow.return_rate.to_le_bytes());
    out.push(flow.trust);
    let [a, b, c, _] = flow.asked.to_le_bytes();
    let [d, e, f, _] = flow.received.to_le_bytes();
    put(out, [a, b, c, d, e, f]);
}

fn decode_flow(reader: &mut Reader<'_>, virtual_time: u64) -> Option<FlowState> {
    let (class, tenant, packed) = (reader.byte()?, reader.u32()?, reader.u32()?);
    let [a, b, c, d, e] = reader.array()?;
    let (return_rate, trust) = (reader.u16()?.min(ALL_RETURN), reader.byte()?);
    let [f, g, h, i, j, k] = reader.array()?;
    Some(FlowState {
        class,
        tenant,
        class_weight: u16::try_from(packed >> 22).ok()?.clamp(1, 1_000),
        tenant_weight: u16::try_from((packed >> 12) & 0x3ff).ok()?.clamp(1, 1_000),
        waiting: u16::try_from(packed & 0xfff).ok()?,
        finish: virtual_time
            .saturating_add(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
            .saturating_sub(MOST_BEHIND),
        return_rate,
        trust,
        asked: u32::from_le_bytes([f, g, h, 0]),
        received: u32::from_le_bytes([i, j, k, 0]),
    })
}
