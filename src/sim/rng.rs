//! A small seeded generator (splitmix64 seeding xoshiro256++), so that a run repeats exactly.

use crate::units::Span;

/// Source of everything random in a run. Not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

/// One step of splitmix64; also a good mixer for identifiers.
pub fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// An independent stream for every pair of `seed` and `stream`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let first = mix(seed ^ mix(stream));
        let second = mix(first);
        let third = mix(second);
        Self([first, second, third, mix(third)])
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let carry = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= carry;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `[low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `[low, high)`.
    pub fn span(&mut self, range: (Span, Span)) -> Span {
        let width = range.1.minus(range.0).as_micros();
        Span::from_micros(range.0.as_micros() + (self.unit() * width as f64) as u64)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with this mean: the time between arrivals of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Log-normal: `exp` of a normal variable with this mean and deviation.
    pub fn log_normal(&mut self, mu: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.unit();
        (mu + sigma * radius * angle.cos()).exp()
    }
}
