//! The calls that wait, packed in memory as they are in the bytes: a decision looks at each of them once, changes one,
//! and copies the rest as a whole.

use core::ops::Range;

use super::compact::{low32, pack, unpack, unpack_byte};

/// Told times are kept relative to a moment at most this long before the ledger's time, in milliseconds.
const MOST_ELAPSED: u64 = 1 << 22;
/// After moving that moment it lies this far back: longer than a booking is kept past its time.
const BEFORE: u64 = 1 << 14;
/// Longest told time.
const TIMES: u64 = (1 << 23) - 1;

/// A call that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// Low 23 bits of its fingerprint.
    pub(crate) print: u32,
    /// When it was told to come back, ledger time in milliseconds.
    pub(crate) back: u64,
    /// From then until its turn, in steps of [`Call::STEP`]: not 0 when its turn is later than may be told.
    pub(crate) later: u8,
    /// Booked while a call that looks the same was waiting already.
    pub(crate) twin: bool,
    /// Refused although it came at its turn: when it stays away now, that says nothing about its flow.
    pub(crate) broken: bool,
    /// Requests, LLM tokens, input, output: those that are limited, rounded up to what 16 bits can say.
    pub(crate) amounts: [u32; 4],
}

impl Call {
    /// Milliseconds per step of `later`.
    pub(crate) const STEP: u64 = 500;

    /// When its turn is, in milliseconds.
    pub(crate) fn due(&self) -> u64 {
        self.back.saturating_add(u64::from(unpack_byte(self.later)).saturating_mul(Self::STEP))
    }
}

/// Fingerprint (23 bits) and broken (1 bit), told time (23 bits of ms after the epoch) and twin (1 bit), later (8-bit amount).
pub(crate) type Packed = [u8; 7];

/// All calls that wait, in the order of their flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) heads: Vec<Packed>,
    /// LLM tokens, input, output as 16-bit amounts: for each call, or empty when no call carries any.
    pub(crate) kinds: [Vec<[u8; 2]>; 3],
    /// Whether each of them is a request, too.
    pub(crate) requests: bool,
    /// Told times count from here, ledger time in milliseconds.
    pub(crate) epoch: u64,
}

impl Calls {
    pub(crate) const fn len(&self) -> usize {
        self.heads.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.kinds.iter_mut().for_each(Vec::clear);
        (self.requests, self.epoch) = (false, 0);
    }

    pub(crate) fn get(&self, index: usize) -> Option<Call> {
        self.heads.get(index).map(|head| self.unpacked(index, *head))
    }

    /// The calls at `range`.
    pub(crate) fn range(&self, range: Range<usize>) -> impl Iterator<Item = Call> + '_ {
        let heads = self.heads.get(range.clone()).unwrap_or_default();
        range.zip(heads).map(|(index, head)| self.unpacked(index, *head))
    }

    /// Replaces a call that is there.
    pub(crate) fn set(&mut self, index: usize, call: &Call) {
        let packed = self.packed(call);
        if let Some(head) = self.heads.get_mut(index) {
            *head = packed;
            self.set_amounts(index, call, false);
        }
    }

    /// Inserts a call at `index`; `now` in milliseconds.
    pub(crate) fn insert(&mut self, index: usize, call: &Call, now: u64) {
        if self.is_empty() {
            self.clear();
            self.epoch = now;
        }
        if index <= self.len() {
            let packed = self.packed(call);
            self.set_amounts(index, call, true);
            self.heads.insert(index, packed);
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        if index < self.len() {
            self.heads.remove(index);
            for kind in self.kinds.iter_mut().filter(|kind| index < kind.len()) {
                kind.remove(index);
            }
        }
        if self.is_empty() {
            self.clear();
        }
    }

    /// Whether all were told times from `moment` (milliseconds) on.
    pub(crate) fn all_from(&self, moment: u64) -> bool {
        let Some(least) = moment.checked_sub(self.epoch) else { return true };
        // Without a way out in the middle: there hardly ever is one, and the look at all of them is quicker so.
        let told = self.heads.iter().map(|&[_, _, _, a, b, c, _]| u32::from_le_bytes([a, b, c, 0]) >> 1);
        told.fold(u32::MAX, u32::min) >= u32::try_from(least).unwrap_or(u32::MAX)
    }

    /// Drops those of which `keep` is false.
    pub(crate) fn retain(&mut self, keep: impl FnMut(Call) -> bool) {
        let kept: Vec<bool> = self.range(0..self.len()).map(keep).collect();
        fn thin<T>(all: &mut Vec<T>, kept: &[bool]) {
            let mut kept = kept.iter();
            all.retain(|_| kept.next().copied().unwrap_or(true));
        }
        thin(&mut self.heads, &kept);
        self.kinds.iter_mut().for_each(|kind| thin(kind, &kept));
        if self.is_empty() {
            self.clear();
        }
    }

    /// Keeps told times within what is stored of them.
    pub(crate) fn move_epoch(&mut self, now: u64) {
        if self.is_empty() || now.saturating_sub(self.epoch) <= MOST_ELAPSED {
            return;
        }
        let epoch = now.saturating_sub(BEFORE);
        let moved: Vec<Call> = self.range(0..self.len()).collect();
        self.epoch = epoch;
        let moved: Vec<Packed> = moved.iter().map(|call| self.packed(call)).collect();
        self.heads = moved;
    }

    fn packed(&self, call: &Call) -> Packed {
        let told = low32(call.back.saturating_sub(self.epoch).min(TIMES)) << 1 | u32::from(call.twin);
        let print = call.print << 1 | u32::from(call.broken);
        let ([a, b, c, _], [d, e, f, _]) = (print.to_le_bytes(), told.to_le_bytes());
        [a, b, c, d, e, f, call.later]
    }

    fn unpacked(&self, index: usize, [a, b, c, d, e, f, later]: Packed) -> Call {
        let told = u32::from_le_bytes([d, e, f, 0]);
        let [llm_tokens, input, output] = &self.kinds;
        let amount =
            |kind: &Vec<[u8; 2]>| kind.get(index).map_or(0, |&amount| unpack(u16::from_le_bytes(amount)));
        Call {
            print: u32::from_le_bytes([a, b, c, 0]) >> 1,
            broken: a & 1 != 0,
            back: self.epoch.saturating_add(u64::from(told >> 1)),
            later,
            twin: told & 1 != 0,
            amounts: [u32::from(self.requests), amount(llm_tokens), amount(input), amount(output)],
        }
    }

    fn set_amounts(&mut self, index: usize, call: &Call, insert: bool) {
        let [requests, amounts @ ..] = call.amounts;
        self.requests |= requests > 0;
        for (kind, amount) in self.kinds.iter_mut().zip(amounts) {
            if kind.is_empty() {
                if amount == 0 {
                    continue;
                }
                kind.resize(self.heads.len(), [0; 2]);
            }
            let amount = pack(amount).to_le_bytes();
            if insert {
                kind.insert(index.min(kind.len()), amount);
            } else if let Some(held) = kind.get_mut(index) {
                *held = amount;
            }
        }
    }
}
