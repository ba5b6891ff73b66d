//! Long text is sampled: the estimate stays near that of counting everything, whatever the text and its split.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects
)]

use envoy_backpressure::cost::dialect::{Endpoint, classify};
use envoy_backpressure::cost::request::{BodySeen, RequestReader, read_request};
use envoy_backpressure::cost::text::{Family, Sample, WHOLE, llm_tokens};
use proptest::prelude::*;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// The first of the list are the most frequent.
    fn common<'a>(&mut self, list: &[&'a str]) -> &'a str {
        let bound = self.below(list.len()) + 1;
        list[self.below(bound)]
    }
}

const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "that",
    "boat",
    "is",
    "harbour",
    "was",
    "for",
    "it",
    "with",
    "as",
    "his",
    "on",
    "be",
    "at",
    "by",
    "had",
    "captain",
    "not",
    "are",
    "but",
    "from",
    "or",
    "have",
    "an",
    "they",
    "which",
    "lighthouse",
    "one",
    "you",
    "were",
    "her",
    "all",
    "she",
    "there",
    "would",
    "their",
    "weather",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "registration",
    "so",
    "what",
    "up",
    "about",
    "into",
    "than",
    "them",
    "can",
    "only",
    "other",
    "time",
    "new",
    "cargo",
    "some",
    "could",
    "these",
    "two",
    "may",
    "first",
    "then",
    "do",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "navigation",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "well",
    "did",
    "many",
    "fore",
    "must",
    "years",
    "back",
    "through",
    "much",
    "where",
    "your",
    "down",
    "should",
    "because",
    "long",
    "each",
    "just",
    "state",
    "those",
    "people",
    "too",
    "mr.",
    "how",
    "little",
    "good",
    "world",
    "make",
    "very",
    "year",
    "still",
    "see",
    "work",
    "life",
    "men",
    "day",
    "tidal",
    "Rotterdam",
    "unfathomable",
    "Admiralty",
    "barnacle",
    "1912",
    "meteorological",
    "don't",
    "quay-side",
    "hawser",
    "thwart",
];

fn prose(dice: &mut Dice, out: &mut String) {
    for at in 0..6 + dice.below(14) {
        let word = dice.common(WORDS);
        if at == 0 {
            out.push_str(&word[..1].to_uppercase());
            out.push_str(&word[1..]);
        } else {
            out.push_str([" ", " ", " ", " ", " ", " ", " ", ", ", "; "][dice.below(9)]);
            out.push_str(word);
        }
    }
    out.push_str([". ", ". ", ". ", "? ", ".\n\n"][dice.below(5)]);
}

fn code(dice: &mut Dice, out: &mut String) {
    let indent = "    ".repeat(dice.below(4));
    let name = |dice: &mut Dice| {
        let (a, b) = (dice.common(WORDS), dice.common(WORDS));
        let plain = |word: &str| word.replace(['.', '\'', '-'], "_");
        format!("{}_{}", plain(a), plain(b))
    };
    let (a, b, c) = (name(dice), name(dice), name(dice));
    let number = dice.below(5_000);
    out.push_str(&match dice.below(7) {
        0 => format!("{indent}if self.{a} is None and {b} >= {number}:\n"),
        1 => format!("{indent}return [{a}({b}, \"{c}\") for {b} in self._{c}.values()]\n"),
        2 => format!("{indent}{a} = {b}[{number}] * {c}.get('{a}', 0x{number:x})\n"),
        3 => format!("{indent}# {}", {
            let mut text = String::new();
            prose(dice, &mut text);
            text.trim().to_owned() + "\n"
        }),
        4 => format!("\n{indent}def {a}(self, {b}: int = {number}, *, {c}: str | None = None) -> None:\n"),
        5 => format!("{indent}log.warning(f\"{{{a}}} != {{{b}}}\", extra={{\"{c}\": {number}.5}})\n"),
        _ => format!("{indent}for {a}, {b} in enumerate({c}):\n"),
    });
}

fn json(dice: &mut Dice, out: &mut String) {
    let (a, b) = (dice.common(WORDS), dice.common(WORDS));
    let (id, price) = (dice.0, dice.below(100_000));
    let mut text = String::new();
    prose(dice, &mut text);
    let text = text.trim().replace('"', "");
    out.push_str(&format!(
        "{{\"id\":\"{id:016x}\",\"{a}\":{price}.{:02},\"tags\":[\"{b}\",null,true],\"note\":\"{text}\"}},\n",
        price % 97
    ));
}

fn chinese(dice: &mut Dice, out: &mut String) {
    let letters: Vec<char> = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影算低持音众书布复容儿须际商非验连断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何除消构府称太准精值号率族维划选标写存候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严".chars().collect();
    for _ in 0..4 + dice.below(12) {
        let bound = dice.below(letters.len()) + 1;
        out.push(letters[dice.below(bound)]);
    }
    out.push(['，', '，', '。', '、', '\n'][dice.below(5)]);
}

type Writer = fn(&mut Dice, &mut String);

const KINDS: [(&str, Writer); 4] = [("prose", prose), ("code", code), ("json", json), ("chinese", chinese)];

fn document(kind: &str, seed: u64, bytes: usize) -> String {
    let (mut dice, mut out) = (Dice(seed), String::new());
    let writer = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, writer)| *writer);
    while out.len() < bytes {
        if let Some(writer) = writer {
            writer(&mut dice, &mut out);
            continue;
        }
        let (section, end) = (KINDS[dice.below(4)].1, out.len() + 300 + dice.below(3_000));
        while out.len() < end {
            section(&mut dice, &mut out);
        }
    }
    out
}

fn chat() -> Endpoint {
    classify(b"/v1/chat/completions", None).unwrap()
}

fn body(contents: &[&str]) -> String {
    let messages: Vec<_> =
        contents.iter().map(|text| serde_json::json!({"role": "user", "content": text})).collect();
    serde_json::json!({"model": "m", "messages": messages}).to_string()
}

fn estimate(body: &[u8]) -> u64 {
    read_request(&chat(), body, BodySeen::Complete).input_llm_tokens
}

/// The body with every character beyond ASCII escaped, as some libraries write it.
fn escaped(body: &str) -> String {
    let mut units = [0; 2];
    body.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
        out
    })
}

/// How far the estimate is off that of counting everything, in per mille.
fn off(estimated: u64, full: u64) -> u64 {
    estimated.abs_diff(full) * 1_000 / full
}

#[test]
fn sampled_estimates_are_near_the_full_ones() {
    let mut worst = Vec::new();
    for kind in ["prose", "code", "json", "chinese", "mixed"] {
        for (bytes, bound) in [(16_000, 50), (200_000, 30)] {
            let mut sum = 0;
            for seed in 1..=5 {
                let text = document(kind, seed, bytes);
                let full = llm_tokens(text.as_bytes(), Family::O200k) + 7;
                let plain = body(&[&text]);
                let whole = off(estimate(plain.as_bytes()), full);
                let ascii = off(estimate(escaped(&plain).as_bytes()), full);
                let (left, right) = text.split_at(text.floor_char_boundary(bytes / 3));
                let pair = off(estimate(body(&[left, right]).as_bytes()), full + 4);
                sum += whole + ascii + pair;
                for off in [whole, ascii, pair] {
                    assert!(off < bound, "{kind} {seed} at {bytes}: {whole} {ascii} {pair} per mille");
                }
            }
            worst.push(format!("{kind} at {bytes}: {} per mille", sum / 15));
        }
    }
    println!("{}", worst.join("\n"));
}

#[test]
fn many_short_messages_are_sampled_like_one_long_one() {
    let texts: Vec<String> = (0..400).map(|seed| document("prose", seed, 400)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let full: u64 = texts.iter().map(|text| llm_tokens(text.as_bytes(), Family::O200k) + 4).sum();
    assert!(off(estimate(body(&texts).as_bytes()), full + 3) < 30);
}

#[test]
fn short_bodies_are_counted_whole() {
    for kind in ["prose", "code", "json", "chinese", "mixed"] {
        let text = document(kind, 7, 1_500);
        let text = &text[..text.floor_char_boundary(WHOLE / 2)];
        assert_eq!(
            estimate(body(&[text]).as_bytes()),
            llm_tokens(text.as_bytes(), Family::O200k) + 7,
            "{kind}"
        );
    }
}

#[test]
fn every_split_of_a_sampled_body_gives_the_same() {
    let text =
        document("mixed", 3, 30_000) + "\u{1f600}\u{1f468}\u{200d}\u{1f469} \\ \" \u{1}".repeat(300).as_str();
    let plain = body(&[&text, &text]);
    let broken = escaped(&plain).replace("\\u4e00", "\\ud83d").replace("\\ude00", "x");
    for body in [plain.clone(), escaped(&plain), broken] {
        let whole = read_request(&chat(), body.as_bytes(), BodySeen::Complete);
        assert!(whole.readable);
        for size in [1, 2, 3, 5, 7, 64, 129, 1_000, 4_096, 16_385] {
            let mut reader = RequestReader::new(&chat());
            body.as_bytes().chunks(size).for_each(|piece| reader.feed(piece));
            assert_eq!(reader.facts(BodySeen::Complete), whole, "pieces of {size}");
        }
    }
}

#[test]
fn what_is_wrong_in_text_that_is_not_counted_is_refused_all_the_same() {
    let text = "word ".repeat(10_000);
    for wrong in ["\\x", "\\u12g4", "\\"] {
        let body = format!("{{\"messages\":[{{\"content\":\"a\\n{text}{wrong}\"}}]}}");
        assert!(!read_request(&chat(), body.as_bytes(), BodySeen::Complete).readable, "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_is_free_and_none_costs_more_than_a_token_a_byte(
        unit in proptest::collection::vec(any::<u8>(), 1..40),
        times in 1_usize..3_000,
        cuts in any::<bool>(),
    ) {
        let mut sample = Sample::new();
        for _ in 0..times {
            sample.feed(&unit);
            if cuts {
                sample.cut();
            }
        }
        let bytes = (unit.len() * times) as u64;
        for family in Family::ALL {
            let tokens = sample.llm_tokens(family);
            prop_assert!((1..=bytes).contains(&tokens) && tokens >= bytes / 128, "{tokens} of {bytes}");
        }
    }
}
