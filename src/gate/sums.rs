//! What waiting calls cost together, read from the packed queue without taking the calls apart.

use super::calls::Calls;
use super::compact::unpack;
use super::weight::Pricing;

/// Thousandths of a slot that one call holds.
pub(crate) const WHOLE_SLOT: u64 = 1_000;

/// The amounts of the waiting calls, and the prices of these.
pub(crate) struct Prices<'a> {
    /// LLM tokens, input, output of each call; empty when no call carries any.
    kinds: [(&'a [[u8; 2]], u64); 3],
    /// Least price of a call: that of its slot and of the request.
    least: u64,
    /// Whether each call is a request, too.
    requests: bool,
}

impl<'a> Prices<'a> {
    pub(crate) fn new(calls: &'a Calls, pricing: &Pricing) -> Self {
        let [_, factors @ ..] = pricing.factors();
        let mut kinds = [(&[][..], 0); 3];
        for (kind, (amounts, factor)) in kinds.iter_mut().zip(calls.kinds.iter().zip(factors)) {
            *kind = (amounts.as_slice(), factor);
        }
        let least = pricing.dominant(&[u32::from(calls.requests), 0, 0, 0]);
        Self { kinds, least, requests: calls.requests }
    }
}

/// Sums over some of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    calls: u64,
    kinds: [u64; 3],
    /// Sum of the prices, microseconds of the limit.
    pub(crate) price: u64,
}

impl Sums {
    /// Adds call number `call`, and says its price.
    pub(crate) fn add(&mut self, prices: &Prices<'_>, call: usize) -> u64 {
        let mut price = prices.least;
        for (sum, (amounts, factor)) in self.kinds.iter_mut().zip(&prices.kinds) {
            if let Some(&packed) = amounts.get(call) {
                let amount = unpack(u16::from_le_bytes(packed));
                *sum = sum.saturating_add(amount.into());
                price = price.max(Pricing::price(amount, *factor));
            }
        }
        self.calls = self.calls.saturating_add(1);
        self.price = self.price.saturating_add(price);
        price
    }

    /// What is left without `part`.
    pub(crate) fn without(&self, part: &Self) -> Self {
        let [a, b, c] = self.kinds;
        let [d, e, f] = part.kinds;
        Self {
            calls: self.calls.saturating_sub(part.calls),
            kinds: [a.saturating_sub(d), b.saturating_sub(e), c.saturating_sub(f)],
            price: self.price.saturating_sub(part.price),
        }
    }

    /// Requests, LLM tokens, input, output, thousandths of slots.
    pub(crate) fn amounts(&self, prices: &Prices<'_>) -> [u64; 5] {
        let [llm_tokens, input, output] = self.kinds;
        let requests = if prices.requests { self.calls } else { 0 };
        [requests, llm_tokens, input, output, self.calls.saturating_mul(WHOLE_SLOT)]
    }
}
