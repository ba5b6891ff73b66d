//! One fast, stable 64-bit hash: fingerprints of calls, slots of unnamed tenants, names for credentials.
//!
//! The result goes into shared state that outlives the module, so it never depends on a compiler, a platform or a
//! random seed. It is not cryptographic: whoever knows the function can make two inputs collide, which gains
//! them a place in their own queue and nothing else.
//!
//! Four lanes of eight bytes are mixed by multiplication and rotation, which wasm has as single instructions (a
//! widening multiplication, as folding hashes use, takes six there).

const STEP: u64 = 32;
const A: u64 = 0x9E37_79B9_7F4A_7C15;
const B: u64 = 0xC2B2_AE3D_27D4_EB4F;
const C: u64 = 0x1656_67B1_9E37_79F9;
const D: u64 = 0xD6E8_FEB8_6659_FD93;

/// Hash of `bytes` under `seed`; different seeds give unrelated functions.
pub fn hash64(seed: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<{ STEP as usize }>();
    let mut lanes = [seed ^ A, seed.wrapping_add(B), seed.rotate_left(23) ^ C, seed.wrapping_sub(D)];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = absorb(*lane, u64::from_le_bytes(*word));
        }
    }
    let mut state = lanes.iter().fold(seed ^ D, |state, lane| avalanche(state ^ lane).wrapping_mul(A));
    let (words, tail) = rest.as_chunks::<8>();
    for word in words {
        state = avalanche(absorb(state, u64::from_le_bytes(*word)));
    }
    let mut last = [0_u8; 8];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    // The length tells a tail of zeros from none.
    state = absorb(state, u64::from_le_bytes(last)) ^ (bytes.len() as u64).wrapping_mul(C);
    avalanche(state)
}

/// Hash of two hashes, in order.
pub const fn combine(first: u64, second: u64) -> u64 {
    avalanche(avalanche(first ^ B).wrapping_mul(A) ^ second)
}

const fn absorb(state: u64, word: u64) -> u64 {
    (state ^ word.wrapping_mul(B)).rotate_left(29).wrapping_mul(A)
}

const fn avalanche(mut state: u64) -> u64 {
    state = (state ^ (state >> 32)).wrapping_mul(D);
    state = (state ^ (state >> 29)).wrapping_mul(C);
    state ^ (state >> 32)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_the_same_for_ever() {
        let golden: Vec<u64> = [&b""[..], b"a", b"acme", &[0; 31], &[0; 32], &[0xFF; 100]]
            .iter()
            .map(|bytes| hash64(0, bytes))
            .collect();

        assert_eq!(golden, GOLDEN);
    }

    const GOLDEN: [u64; 6] = [
        0x3221_473E_469F_2FF2,
        0xE26F_E763_3F93_48EE,
        0xAE85_1128_8737_F77E,
        0x51C6_40B3_4484_5D2E,
        0x5A1F_F987_366B_4A55,
        0xE132_F38D_31BC_CD41,
    ];

    #[test]
    fn zeros_of_every_length_differ() {
        let mut seen: Vec<u64> = (0..200).map(|length| hash64(7, &vec![0; length])).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200);
    }

    #[test]
    fn each_input_bit_flips_about_half_of_the_output() {
        for length in [1, 8, 31, 32, 33, 64, 200] {
            let base = vec![0x5A_u8; length];
            let reference = hash64(1, &base);
            let mut flipped = 0;
            for bit in 0..length * 8 {
                let mut other = base.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                let changed = (hash64(1, &other) ^ reference).count_ones();
                assert!(changed >= 8, "length {length}, bit {bit}: only {changed} bits changed");
                flipped += changed;
            }
            let mean = f64::from(flipped) / (length * 8) as f64;
            assert!((29.0..35.0).contains(&mean), "length {length}: {mean} bits on average");
        }
    }

    #[test]
    fn low_bits_of_counting_inputs_spread_evenly() {
        let mut slots = [0_u32; 64];
        for i in 0..64_000_u32 {
            let slot = hash64(0, format!("tenant-{i}").as_bytes()) % 64;
            slots[slot as usize] += 1;
        }
        assert!(slots.iter().all(|&count| (850..1150).contains(&count)), "{slots:?}");
    }

    #[test]
    fn combining_keeps_the_order_apart() {
        assert_ne!(combine(1, 2), combine(2, 1));
        assert_ne!(combine(0, 0), 0);
    }
}
