#![allow(clippy::arithmetic_side_effects)]

use super::{Counts, Family, KINDS, Kind, LENGTHS, llm_tokens};

fn cells(parts: &[&[u8]]) -> [u32; KINDS * LENGTHS] {
    let mut counts = Counts::new();
    for part in parts {
        counts.feed(part);
    }
    counts.cut();
    *counts.cells()
}

fn count(text: &str, kind: Kind, len: usize) -> u32 {
    cells(&[text.as_bytes()])[kind as usize * LENGTHS + len - 1]
}

const MIXED: &str = "The quick_brown fox: HTTPServer42 getValue()  \n\n\tprix élevé, Straße; Привет мир «да» 漢字かな\
    カナ 한국어 नमस्ते สวัสดี שלום مرحبا 😀👍🏽 → — ======== ==> 3.14 a1b2C3 \u{0} ÉTÉ ©";

#[test]
fn runs_are_told_apart() {
    assert_eq!(count("foo bar", Kind::Lower, 3), 2);
    assert_eq!(count("foo(bar)", Kind::LowerInner, 3), 1);
    assert_eq!(count("getValue", Kind::CapitalGlued, 5), 1);
    assert_eq!(count("HTTPServer", Kind::Upper, 4), 1);
    assert_eq!(count("HTTPServer", Kind::CapitalGlued, 6), 1);
    assert_eq!(count(" 123", Kind::DigitsSpaced, 3), 1);
    assert_eq!(count("x123", Kind::Digits, 3), 1);
    assert_eq!(count("====", Kind::Ruler, 4), 1);
    assert_eq!(count("a ==> b", Kind::MarksSpaced, 3), 1);
    assert_eq!(count("a\n\nb", Kind::Lines, 2), 1);
    assert_eq!(count("a    b", Kind::Blanks, 4), 1);
    assert_eq!(count("漢字", Kind::Han, 2), 1);
    assert_eq!(count("élevé", Kind::Accent, 1), 2);
    assert_eq!(count("élevé", Kind::Lower, 5), 1);
    assert_eq!(count("😀", Kind::Emoji, 1), 1);
}

#[test]
fn every_split_counts_the_same() {
    let bytes = MIXED.as_bytes();
    let whole = cells(&[bytes]);
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(cells(&[left, right]), whole, "split at {at}");
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
    assert_eq!(counts.cells()[Kind::Lower as usize * LENGTHS + 1], 3);
}
