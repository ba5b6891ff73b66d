//! Bytes of the queue: 24 a flow, 7 to 13 a call.
//!
//! ```text
//! virtual time, decays (u64 each), flows (u16), the flows; when any call waits:
//! carried (u8: requests, LLM tokens, input, output), epoch of the told times (u64, ms), the calls' heads (7 bytes each),
//! for each carried kind of LLM token an amount a call (16 bits each)
//! flow: class (u8), tenant (u32), class weight (10 bits), tenant weight (10 bits), waiting (12 bits),
//!       finish (u48), return rate (u16), trust (u8), asked, received (u24)
//! ```

use super::codec::{Reader, put};
use super::queue::{ALL_RETURN, FlowState, MAX_CALLS, MAX_FLOWS, Queue};

/// Encoded bytes of a flow.
pub(crate) const FLOW_BYTES: usize = 24;
/// Encoded bytes of a call without its amounts.
pub(crate) const CALL_BYTES: usize = 7;

pub(crate) fn encode_queue(queue: &Queue, out: &mut Vec<u8>) {
    let calls = &queue.calls;
    let width = calls.kinds.iter().filter(|kind| !kind.is_empty()).count().saturating_mul(2);
    let bytes = calls.len().saturating_mul(width.saturating_add(CALL_BYTES));
    out.reserve(bytes.saturating_add(queue.flows.len().saturating_mul(FLOW_BYTES)).saturating_add(27));
    put(out, queue.virtual_time.to_le_bytes());
    put(out, queue.decays.to_le_bytes());
    put(out, u16::try_from(queue.flows.len()).unwrap_or(u16::MAX).to_le_bytes());
    for flow in &queue.flows {
        put(out, encode_flow(flow));
    }
    if calls.is_empty() {
        return;
    }
    let kinds = calls.kinds.iter().zip(1_u8..);
    out.push(
        kinds.fold(u8::from(calls.requests), |bits, (kind, bit)| bits | u8::from(!kind.is_empty()) << bit),
    );
    put(out, calls.epoch.to_le_bytes());
    out.extend_from_slice(calls.heads.as_flattened());
    for kind in &calls.kinds {
        out.extend_from_slice(kind.as_flattened());
    }
}

/// Reads into an empty queue.
pub(crate) fn decode_queue(reader: &mut Reader<'_>, queue: &mut Queue) -> Option<()> {
    queue.virtual_time = reader.u64()?;
    queue.decays = reader.u64()?;
    let flows = usize::from(reader.u16()?);
    if flows == 0 || flows > MAX_FLOWS {
        return None;
    }
    let mut waiting = 0_usize;
    let (flows, _) = reader.take(flows.saturating_mul(FLOW_BYTES))?.as_chunks::<FLOW_BYTES>();
    queue.flows.reserve_exact(flows.len());
    let mut before = None;
    for bytes in flows {
        let flow = decode_flow(*bytes);
        if before >= Some(flow.key()) {
            return None;
        }
        before = Some(flow.key());
        waiting = waiting.saturating_add(flow.waiting.into());
        queue.flows.push(flow);
    }
    if waiting == 0 {
        return Some(());
    }
    if waiting > MAX_CALLS {
        return None;
    }
    let carried = reader.byte()?;
    let calls = &mut queue.calls;
    calls.requests = carried & 1 != 0;
    calls.epoch = reader.u64()?;
    let (heads, _) = reader.take(waiting.saturating_mul(CALL_BYTES))?.as_chunks::<CALL_BYTES>();
    calls.heads.extend_from_slice(heads);
    for (kind, bit) in calls.kinds.iter_mut().zip(1_u8..) {
        if carried & 1 << bit != 0 {
            let (amounts, _) = reader.take(waiting.saturating_mul(2))?.as_chunks::<2>();
            kind.extend_from_slice(amounts);
        }
    }
    Some(())
}

fn encode_flow(flow: &FlowState) -> [u8; FLOW_BYTES] {
    let [t0, t1, t2, t3] = flow.tenant.to_le_bytes();
    let weights = u32::from(flow.class_weight) << 10 | u32::from(flow.tenant_weight);
    let [w0, w1, w2, w3] = (weights << 12 | u32::from(flow.waiting)).to_le_bytes();
    let [f0, f1, f2, f3, f4, f5, ..] = flow.finish.to_le_bytes();
    let [r0, r1] = flow.return_rate.to_le_bytes();
    let [a, b, c, _] = flow.asked.to_le_bytes();
    let [d, e, f, _] = flow.received.to_le_bytes();
    [flow.class, t0, t1, t2, t3, w0, w1, w2, w3, f0, f1, f2, f3, f4, f5, r0, r1, flow.trust, a, b, c, d, e, f]
}

fn decode_flow(bytes: [u8; FLOW_BYTES]) -> FlowState {
    let [class, t0, t1, t2, t3, w0, w1, w2, w3, f0, f1, f2, f3, f4, f5, r0, r1, trust, a, b, c, d, e, f] =
        bytes;
    let packed = u32::from_le_bytes([w0, w1, w2, w3]);
    let weight = |bits: u32| u16::try_from(bits & 0x3ff).unwrap_or(0).clamp(1, 1_000);
    FlowState {
        class,
        tenant: u32::from_le_bytes([t0, t1, t2, t3]),
        class_weight: weight(packed >> 22),
        tenant_weight: weight(packed >> 12),
        waiting: u16::try_from(packed & 0xfff).unwrap_or(0),
        finish: u64::from_le_bytes([f0, f1, f2, f3, f4, f5, 0, 0]),
        return_rate: u16::from_le_bytes([r0, r1]).min(ALL_RETURN),
        trust,
        asked: u32::from_le_bytes([a, b, c, 0]),
        received: u32::from_le_bytes([d, e, f, 0]),
    }
}
