//! What must be served by when, gathered in slots of time so that no call has to be sorted.

/// Milliseconds per near slot (as a shift), and their number: 64 ms each, 65 s in all.
const NEAR_BITS: u32 = 6;
const NEAR: usize = 1_024;
/// Milliseconds per far slot (as a shift), and where they end: 1 s each, up to 262 s.
const FAR_BITS: u32 = 10;
const FAR: usize = 256;
/// The same of the farthest: 16 s each, up to 70 minutes. What is promised for later still holds nothing back yet.
const FARTHEST_BITS: u32 = 14;
const FARTHEST: usize = 256;
/// Slots of each kind begin where the finer ones end.
const FIRST_FAR: usize = NEAR >> (FAR_BITS - NEAR_BITS);
const FIRST_FARTHEST: usize = FAR >> (FARTHEST_BITS - FAR_BITS);
const FAR_AT: usize = NEAR - FIRST_FAR;
const FARTHEST_AT: usize = FAR_AT + FAR - FIRST_FARTHEST;
const FIRST_OF_FARTHEST: usize = FAR_AT + FAR;
const SLOTS: usize = FARTHEST_AT + FARTHEST;

/// Number of the slot for a moment `ahead` milliseconds from now.
fn slot_for(ahead: u64) -> Option<usize> {
    let of = |bits: u32| usize::try_from(ahead >> bits).unwrap_or(usize::MAX);
    let (near, far, farthest) = (of(NEAR_BITS), of(FAR_BITS), of(FARTHEST_BITS));
    if near < NEAR {
        Some(near)
    } else if far < FAR {
        Some(far.saturating_add(FAR_AT))
    } else {
        (farthest < FARTHEST).then(|| farthest.saturating_add(FARTHEST_AT))
    }
}

/// What is promised for one slot of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// Needs per resource, in fractions of [`super::queue::ALL_RETURN`].
    pub(crate) needs: [u64; 5],
    /// The largest single need per resource that is limited per minute.
    pub(crate) largest: [u32; 4],
    /// From when all of the slot counts, milliseconds from now: the earliest promise, or of those farthest off the latest,
    /// as they are looked at again, and closer, long before their time.
    from: u64,
}

/// Needs by the time they were promised for.
pub(crate) struct Horizon {
    slots: Vec<Slot>,
}

impl Horizon {
    /// Nothing needed. No memory is taken before the first need.
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Adds what a call due `ahead` milliseconds from now needs.
    pub(crate) fn add(&mut self, ahead: u64, amounts: &[u32; 4], rate: u16) {
        let Some(slot) = slot_for(ahead) else { return };
        if slot >= self.slots.len() {
            self.slots.resize_with(slot.saturating_add(64).min(SLOTS), Slot::default);
        }
        let Some(Slot { needs: [needs @ .., slots], largest, from }) = self.slots.get_mut(slot) else {
            return;
        };
        let first = *slots == 0;
        *from = if first || (ahead < *from) == (slot < FIRST_OF_FARTHEST) { ahead } else { *from };
        let rate = u64::from(rate);
        for ((sum, most), &amount) in needs.iter_mut().zip(largest).zip(amounts) {
            *sum = sum.saturating_add(u64::from(amount).saturating_mul(rate));
            *most = amount.max(*most);
        }
        *slots = slots.saturating_add(rate);
    }

    /// The moments (microseconds from now) at which something is needed, with what is needed at that moment alone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Slot)> {
        let due = self.slots.iter().filter(|Slot { needs: [.., slots], .. }| *slots > 0);
        due.map(|slot| (slot.from.saturating_mul(1_000), slot))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn a_need_counts_from_the_first_promise_of_its_slot() {
        for ahead in (0..3_900_000).step_by(97) {
            let mut horizon = Horizon::new();
            horizon.add(ahead, &[1, 2, 3, 4], 5);
            let found: Vec<_> = horizon.iter().collect();
            assert_eq!((found.len(), found[0].0), (1, ahead * 1_000));
            assert_eq!(found[0].1.needs, [5, 10, 15, 20, 5]);
            horizon.add(ahead + 64.max(ahead / 15), &[1, 2, 3, 9], 5);
            horizon.add(ahead, &[1, 2, 5, 4], 5);
            let found: Vec<_> = horizon.iter().collect();
            assert_eq!((found.len(), found[0].1.largest), (2, [1, 2, 5, 4]), "{ahead}");
        }
    }
}
