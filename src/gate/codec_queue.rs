//! Bytes of the queue: 24 a flow, 7 to 13 a call.
//!
//! ```text
//! virtual time (u64), decays (u48), renewals told (u16), flows (u16), the flows; when any call waits:
//! carried (u8: requests, LLM tokens, input, output), epoch of the told times (u64, ms), the calls' heads (7 bytes each),
//! for each carried kind of LLM token an amount a call (16 bits each)
//! flow: class (u8), tenant (u32), class weight (10 bits), tenant weight (10 bits), waiting (12 bits),
//!       finish (u48), return rate (u16), trust (u8), asked, received (u24)
//! ```

use super::codec::{Reader, put};
use super::compact::{low8, low16, low32};
use super::queue::{ALL_RETURN, FlowState, MAX_CALLS, MAX_FLOWS, Queue};

/// Encoded bytes of a flow.
pub(crate) const FLOW_BYTES: usize = 24;
/// Encoded bytes of a call without its amounts.
pub(crate) const CALL_BYTES: usize = 7;
/// Below these bits of the number of decays lies that of the renewals.
const DECAYS: u64 = (1 << 48) - 1;
/// 48 bits, and 24.
const FINISH: u64 = (1 << 48) - 1;
const SUM: u32 = (1 << 24) - 1;

pub(crate) fn encode_queue(queue: &Queue, out: &mut Vec<u8>) {
    let calls = &queue.calls;
    let width = calls.kinds.iter().filter(|kind| !kind.is_empty()).count().saturating_mul(2);
    let bytes = calls.len().saturating_mul(width.saturating_add(CALL_BYTES));
    out.reserve(bytes.saturating_add(queue.flows.len().saturating_mul(FLOW_BYTES)).saturating_add(27));
    put(out, queue.virtual_time.to_le_bytes());
    put(out, (queue.decays & DECAYS | u64::from(queue.renewals) << 48).to_le_bytes());
    put(out, u16::try_from(queue.flows.len()).unwrap_or(u16::MAX).to_le_bytes());
    let start = out.len();
    out.resize(start.saturating_add(queue.flows.len().saturating_mul(FLOW_BYTES)), 0);
    let (places, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<FLOW_BYTES>();
    for (place, flow) in places.iter_mut().zip(&queue.flows) {
        *place = encode_flow(flow);
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
    let decays = reader.u64()?;
    (queue.decays, queue.renewals) = (decays & DECAYS, low16(low32(decays >> 48)));
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

/// As three words, which costs a third of what single bytes do.
fn encode_flow(flow: &FlowState) -> [u8; FLOW_BYTES] {
    let weights = u64::from(flow.class_weight) << 22 | u64::from(flow.tenant_weight) << 12;
    let weights = weights | u64::from(flow.waiting);
    let rate = u64::from(flow.return_rate);
    let words = [
        u64::from(flow.class) | u64::from(flow.tenant) << 8 | weights << 40,
        (weights >> 24) & 0xff | (flow.finish & FINISH) << 8 | rate << 56,
        rate >> 8
            | u64::from(flow.trust) << 8
            | u64::from(flow.asked & SUM) << 16
            | u64::from(flow.received) << 40,
    ];
    let mut bytes = [0; FLOW_BYTES];
    let (places, _) = bytes.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

fn decode_flow(bytes: [u8; FLOW_BYTES]) -> FlowState {
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut word = || words.next().unwrap_or(0);
    let (first, second, third) = (word(), word(), word());
    let packed = low32(first >> 40 | (second & 0xff) << 24);
    let weight = |bits: u32| low16(bits & 0x3ff).clamp(1, 1_000);
    FlowState {
        class: low8(low32(first)),
        tenant: low32(first >> 8),
        class_weight: weight(packed >> 22),
        tenant_weight: weight(packed >> 12),
        waiting: low16(packed & 0xfff),
        finish: second >> 8 & FINISH,
        return_rate: low16(low32(second >> 56 | (third & 0xff) << 8)).min(ALL_RETURN),
        trust: low8(low32(third >> 8)),
        asked: low32(third >> 16) & SUM,
        received: low32(third >> 40),
    }
}
