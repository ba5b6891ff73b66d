//! What must be served by when, gathered in slots of time so that no call has to be sorted.

/// Milliseconds per near slot (as a shift), and their number: 64 ms each, 65 s in all.
const NEAR_BITS: u32 = 6;
const NEAR: usize = 1_024;
/// Milliseconds per far slot (as a shift), and their number: 1 s each; the last holds everything later.
const FAR_BITS: u32 = 10;
const FAR: usize = 256;
const SLOTS: usize = NEAR + FAR;

/// Needs per resource, in fractions of [`super::queue::ALL_RETURN`], by the time they were promised for.
pub(crate) struct Horizon {
    needs: Vec<[u64; 5]>,
}

impl Horizon {
    /// Nothing needed. No memory is taken before the first need.
    pub(crate) const fn new() -> Self {
        Self { needs: Vec::new() }
    }

    /// Adds what a call due `ahead` milliseconds from now needs. It counts from the start of its slot.
    pub(crate) fn add(&mut self, ahead: u64, amounts: &[u32; 4], rate: u16) {
        let near = usize::try_from(ahead >> NEAR_BITS).unwrap_or(usize::MAX);
        let far = usize::try_from(ahead >> FAR_BITS).unwrap_or(usize::MAX);
        let slot = if near < NEAR { near } else { far.saturating_add(NEAR - 64).min(SLOTS - 1) };
        if slot >= self.needs.len() {
            self.needs.resize(slot.saturating_add(64).min(SLOTS), [0; 5]);
        }
        if let Some([requests, llm_tokens, input, output, slots]) = self.needs.get_mut(slot) {
            let rate = u64::from(rate);
            for (sum, &amount) in [requests, llm_tokens, input, output].into_iter().zip(amounts) {
                *sum = sum.saturating_add(u64::from(amount).saturating_mul(rate));
            }
            *slots = slots.saturating_add(rate);
        }
    }

    /// The moments (microseconds from now) at which something is needed, with what is needed at that moment alone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u64; 5])> {
        self.needs.iter().enumerate().filter(|(_, [.., slots])| *slots > 0).map(|(slot, needs)| {
            let slot = u64::try_from(slot).unwrap_or(0);
            let near = u64::try_from(NEAR).unwrap_or(0);
            let millis = if slot < near {
                slot << NEAR_BITS
            } else {
                slot.saturating_add(64).saturating_sub(near) << FAR_BITS
            };
            (millis.saturating_mul(1_000), needs)
        })
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn a_need_counts_from_at_most_two_percent_or_a_slot_before_its_time() {
        for ahead in (0..400_000).step_by(37) {
            let mut horizon = Horizon::new();
            horizon.add(ahead, &[1, 2, 3, 4], 5);
            let found: Vec<_> = horizon.iter().collect();
            assert_eq!(found.len(), 1);
            let at = found[0].0 / 1_000;
            assert!(at <= ahead, "{ahead} counted at {at}");
            assert!(ahead > 319_000 || ahead - at < 64.max(ahead / 60), "{ahead} counted at {at}");
            assert_eq!(*found[0].1, [5, 10, 15, 20, 5]);
        }
    }
}
