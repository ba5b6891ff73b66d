#![allow(clippy::arithmetic_side_effects)]

use super::{Counts, Family, KINDS, Kind, LENGTHS, llm_tokens};
use crate::cost::dialect::Dialect;

fn rows(parts: &[&[u8]]) -> Vec<[u32; LENGTHS]> {
    let mut counts = Counts::new();
    for part in parts {
        counts.feed(part);
    }
    counts.cut();
    counts.rows().copied().collect()
}

/// How many runs of the kind are at least `len` long.
fn count(text: &str, kind: Kind, len: usize) -> u32 {
    rows(&[text.as_bytes()])[kind as usize][len - 1]
}

const MIXED: &str = "The quick_brown fox: HTTPServer42 getValue()  \n\n\tprix élevé, Straße; Привет мир «да» 漢字かな\
    カナ 한국어 नमस्ते สวัสดี שלום مرحبا 😀👍🏽 → — ======== ==> 3.14 a1b2C3 \u{0} ÉTÉ ©";

#[test]
fn runs_are_told_apart() {
    for (text, kind, len, expected) in [
        ("foo bar", Kind::Lower, 3, 2),
        ("foo bar", Kind::Lower, 4, 0),
        ("foo(bar)", Kind::LowerInner, 3, 1),
        ("a1b", Kind::LowerGlued, 1, 1),
        ("getValue", Kind::FirstGlued, 1, 1),
        ("getValue", Kind::CapitalGlued, 5, 1),
        ("Value", Kind::Capital, 5, 1),
        ("HTTPServer", Kind::Upper, 5, 1),
        ("HTTPServer", Kind::CapitalGlued, 5, 1),
        (" 123", Kind::DigitsSpaced, 3, 1),
        ("x123", Kind::Digits, 3, 1),
        ("====", Kind::Same, 4, 1),
        ("a ==> b", Kind::MarksSpaced, 1, 1),
        ("a ==> b", Kind::Marks, 3, 1),
        ("a\n\nb", Kind::Line, 2, 1),
        ("a    b", Kind::Blank, 4, 1),
        ("漢字", Kind::Han, 2, 1),
        ("élevé", Kind::Accent, 1, 2),
        ("élevé", Kind::Lower, 5, 1),
        ("😀", Kind::Emoji, 1, 1),
    ] {
        assert_eq!(count(text, kind, len), expected, "{text} {kind:?}");
    }
    assert_eq!(count(&"a".repeat(40), Kind::Lower, LENGTHS), 24);
    assert_eq!(rows(&[]).len(), KINDS);
}

#[test]
fn every_split_counts_the_same() {
    let bytes = MIXED.as_bytes();
    let whole = rows(&[bytes]);
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(rows(&[left, right]), whole, "split at {at}");
    }
}

#[test]
fn long_text_counts_as_byte_by_byte() {
    let letters = b"abcdefghijklmnopqrs   \t\t\n\nZYX09..==\x00-";
    let mut random = 7_u64;
    for round in 0..400_usize {
        let text: Vec<u8> = (0..round)
            .map(|_| {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                letters[(random >> 40) as usize % letters.len()]
            })
            .collect();
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(rows(&[&text]), rows(&bytes), "{text:?}");
        // In the middle of a run, and going on behind.
        let mut parts = vec![&b"  word"[..], &text, b"  = and"];
        let whole = rows(&parts);
        parts.splice(1..2, bytes);
        assert_eq!(rows(&parts), whole, "{text:?}");
    }
}

#[test]
fn any_bytes_are_counted_and_never_free() {
    for byte in 0..=u8::MAX {
        for family in Family::ALL {
            assert!(llm_tokens(&[byte], family) >= 1, "byte {byte}");
        }
    }
    assert_eq!(llm_tokens(b"", Family::O200k), 0);
}

#[test]
fn texts_do_not_run_into_each_other() {
    let mut counts = Counts::new();
    for _ in 0..3 {
        counts.feed(b"ab");
        counts.cut();
    }
    assert_eq!(counts.row(Kind::Lower as usize)[1], 3);
}

#[test]
fn names_of_models_tell_their_tokenizer() {
    for (name, family) in [
        ("gpt-5-mini", Family::O200k),
        ("gpt-4-turbo", Family::Cl100k),
        ("us.anthropic.claude-3-5-haiku", Family::Claude),
        ("claude-opus-5", Family::ClaudeDense),
        ("meta.llama3-1-70b-instruct-v1:0", Family::Llama),
        ("meta-llama/Llama-3.3-70B-Instruct", Family::Llama),
        ("llama3.2:1b", Family::Llama),
        ("llama-4-scout", Family::O200k),
        ("mistral-large-latest", Family::Tekken),
        ("codestral-2508", Family::Tekken),
        ("pixtral-12b", Family::Tekken),
        ("qwen3-32b", Family::O200k),
    ] {
        assert_eq!(Family::of(Some(name), Dialect::OpenAi), family, "{name}");
    }
}
