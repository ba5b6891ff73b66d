#![allow(clippy::arithmetic_side_effects)]

use super::{Detail, Format, Item, Reader};
use crate::cost::dialect::Dialect;

fn encode(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|chunk| {
            let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte))
                << (8 * (3 - chunk.len()));
            (0..4).map(move |at| char::from(alphabet[(word >> (18 - 6 * at)) as usize & 63]))
        })
        .collect()
}

fn read(bytes: &[u8], size: usize) -> Item {
    let mut reader = Reader::default();
    for part in encode(bytes).as_bytes().chunks(size) {
        reader.feed(part);
    }
    reader.item(Format::Unknown)
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    file.extend(width.to_be_bytes());
    file.extend(height.to_be_bytes());
    file.extend([8, 2, 0, 0, 0, 1, 2, 3, 4]);
    file.resize(400, 0);
    file
}

fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8, 0xff, 0xe1, 0x10, 0x00];
    file.resize(6 + 0x1000 - 2, 0xff);
    file.extend([0xff, 0xdb, 0x00, 0x04, 1, 2, 0xff, 0xff, 0xc2, 0x00, 0x11, 8]);
    file.extend(height.to_be_bytes());
    file.extend(width.to_be_bytes());
    file.resize(file.len() + 200, 1);
    file
}

fn webp(kind: &[u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut file = b"RIFF\x10\0\0\0WEBP".to_vec();
    file.extend(kind);
    file.extend([0, 0, 0, 0]);
    file.extend(payload);
    file.resize(60, 0);
    file
}

#[test]
fn sizes_are_read_from_the_header_at_every_split() {
    let mut gif = b"GIF89a".to_vec();
    gif.extend([0x40, 0x01, 0xf0, 0x00]);
    gif.resize(60, 0);
    let files = [
        (png(1_024, 768), (1_024, 768)),
        (jpeg(4_000, 3_000), (4_000, 3_000)),
        (gif, (320, 240)),
        (webp(b"VP8 ", &[0, 0, 0, 0x9d, 1, 0x2a, 0x20, 0x03, 0x58, 0x02]), (800, 600)),
        (webp(b"VP8L", &[0x2f, 0x1f, 0xc3, 0x95, 0x00]), (800, 600)),
        (webp(b"VP8X", &[0, 0, 0, 0, 0x1f, 3, 0, 0x57, 2, 0]), (800, 600)),
    ];
    for (file, pixels) in files {
        for size in [1, 3, 4, 5, 64, 100_000] {
            let item = read(&file, size);
            assert_eq!((item.format, item.pixels), (Format::Image, Some(pixels)));
        }
    }
}

#[test]
fn other_files_are_recognised() {
    let mut wave = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wave.extend(8_000_u32.to_le_bytes());
    wave.extend(16_000_u32.to_le_bytes());
    wave.resize(32_000, 0);
    let item = read(&wave, 100);
    assert_eq!((item.format, item.bytes_per_second), (Format::Sound, Some(16_000)));
    assert_eq!(item.llm_tokens(None, Dialect::OpenAi), 20);
    assert_eq!(read(b"%PDF-1.4 and so on, more than thirty bytes", 7).format, Format::Document);
    assert_eq!(read(b"ID3\x04 mp3", 7).format, Format::Sound);
    assert_eq!(read(&[0; 100], 7).format, Format::Unknown);
    assert_eq!(read(b"", 7).format, Format::Unknown);
}

fn picture(width: u32, height: u32, detail: Detail) -> Item {
    let pixels = Some((width, height));
    Item { format: Format::Image, pixels, bytes: 1_000, bytes_per_second: None, detail }
}

#[test]
fn formulas() {
    let auto = Detail::Auto;
    for (model, shape, width, height, detail, expected) in [
        ("gpt-4o", Dialect::OpenAi, 1_024, 1_024, auto, 765),
        ("gpt-4o", Dialect::OpenAi, 2_048, 4_096, auto, 1_105),
        ("gpt-4o", Dialect::OpenAi, 4_096, 4_096, Detail::Low, 85),
        ("gpt-5.4-mini", Dialect::OpenAi, 1_024, 1_024, auto, 1_229),
        ("gpt-5.4", Dialect::OpenAi, 4_032, 3_024, Detail::High, 3_000),
        ("gpt-5.4", Dialect::OpenAi, 4_032, 3_024, auto, 3_000),
        ("gpt-5.4", Dialect::OpenAi, 4_032, 3_024, Detail::Low, 3_687),
        ("gpt-5.4", Dialect::OpenAi, 4_032, 3_024, Detail::Original, 12_000),
        ("gpt-5.2", Dialect::OpenAi, 2_048, 2_048, auto, 4_916),
        ("gpt-4.1-mini", Dialect::OpenAi, 2_048, 2_048, auto, 6_636),
        ("gpt-6-astra", Dialect::OpenAi, 4_032, 3_024, auto, 14_364),
        ("gpt-5-2025-08-07", Dialect::OpenAi, 1_024, 1_024, auto, 630),
        ("gpt-5.5", Dialect::OpenAi, 512, 512, Detail::Low, 308),
        ("claude-sonnet-4-5", Dialect::Anthropic, 1_024, 1_024, auto, 1_369),
        ("claude-opus-4-8", Dialect::Anthropic, 8_000, 8_000, auto, 4_784),
        ("anthropic/claude-opus-4.8", Dialect::OpenAi, 8_000, 8_000, auto, 4_784),
        ("anthropic/claude-opus-4.5", Dialect::OpenAi, 8_000, 8_000, auto, 1_568),
        ("gemini-2.5-flash", Dialect::Gemini, 300, 300, auto, 258),
        ("gemini-2.5-flash", Dialect::Gemini, 1_500, 1_500, auto, 1_032),
        ("gemini-3-pro", Dialect::Gemini, 4_000, 3_000, auto, 1_120),
        ("m-chat", Dialect::OpenAi, 1, 1, auto, 255),
    ] {
        assert_eq!(picture(width, height, detail).llm_tokens(Some(model), shape), expected, "{model}");
    }
}

#[test]
fn a_picture_of_unknown_size_costs_the_bound_of_its_formula_up_to_a_limit() {
    let picture = Item::referred(Format::Image);
    for (model, shape, expected) in [
        ("gpt-4o", Dialect::OpenAi, 1_445),
        ("gpt-5", Dialect::OpenAi, 1_190),
        ("o3", Dialect::OpenAi, 1_275),
        ("claude-sonnet-4-5", Dialect::Anthropic, 1_568),
        ("claude-opus-4-8", Dialect::Anthropic, 2_000),
        ("gemini-2.5-flash", Dialect::Gemini, 2_000),
        ("gemini-3-pro", Dialect::Gemini, 1_120),
    ] {
        assert_eq!(picture.llm_tokens(Some(model), shape), expected, "{model}");
    }
}

#[test]
fn nothing_is_free_and_nothing_unbounded() {
    for shape in Dialect::ALL {
        for model in
            [None, Some("gpt-6-astra"), Some("gpt-4o-mini"), Some("claude-x"), Some("o1"), Some("gemini-3")]
        {
            for format in [Format::Unknown, Format::Image, Format::Sound, Format::Video, Format::Document] {
                let cost = Item::referred(format).llm_tokens(model, shape);
                assert!((85..=2_500).contains(&cost), "{format:?} {model:?} {cost}");
                for side in [0, 1, u32::MAX] {
                    let huge = Item { format, bytes: u64::MAX, ..picture(side, u32::MAX, Detail::Original) };
                    assert!((1..=250_000).contains(&huge.llm_tokens(model, shape)));
                }
            }
        }
    }
}
