#![allow(clippy::arithmetic_side_effects)]

use super::{Container, Literal, MAX_DEPTH, Malformed, Path, Scanner, Visitor};

#[derive(Default)]
struct Log {
    events: Vec<String>,
    open: Option<Vec<u8>>,
}

impl Log {
    fn text(&mut self, kind: &str, part: &[u8], last: bool) {
        let mut whole = self.open.take().unwrap_or_default();
        whole.extend_from_slice(part);
        if last {
            self.events.push(format!("{kind}{}", String::from_utf8_lossy(&whole)));
        } else {
            self.open = Some(whole);
        }
    }
}

impl Visitor for Log {
    fn begin(&mut self, container: Container) {
        self.events.push(if container == Container::Object { "{" } else { "[" }.into());
    }
    fn end(&mut self, container: Container) {
        self.events.push(if container == Container::Object { "}" } else { "]" }.into());
    }
    fn key(&mut self, part: &[u8], last: bool) {
        self.text("k:", part, last);
    }
    fn string(&mut self, part: &[u8], last: bool) {
        self.text("s:", part, last);
    }
    fn number(&mut self, text: &[u8]) {
        self.events.push(format!("n:{}", String::from_utf8_lossy(text)));
    }
    fn literal(&mut self, literal: Literal) {
        self.events.push(format!("{literal:?}"));
    }
}

fn scan(pieces: &[&[u8]]) -> (Vec<String>, Result<(), Malformed>) {
    let (mut scanner, mut log) = (Scanner::new(), Log::default());
    for piece in pieces {
        match scanner.feed(piece, &mut log) {
            Ok(taken) if taken == piece.len() => {}
            Ok(_) => return (log.events, Err(Malformed::Unexpected)),
            Err(malformed) => return (log.events, Err(malformed)),
        }
    }
    let end = scanner.finish(&mut log);
    (log.events, end)
}

const DOCUMENT: &str = "\u{feff} {\"a\\u0062\\\"\" : [1, -2.5e+3 ,true,null,false, {} , []],\r\n\t\"\":\"\",\
    \"é\":\"日本\\ud83d\\ude00x\\ud83d\\n\\udc00\\/\\u00e9\\\\\", \"z\":{\"y\":{\"x\":0}}} \n";

#[test]
fn reports_every_event_in_order() {
    let (events, end) = scan(&[DOCUMENT.as_bytes()]);
    assert_eq!(end, Ok(()));
    let expected = [
        "{",
        "k:ab\"",
        "[",
        "n:1",
        "n:-2.5e+3",
        "True",
        "Null",
        "False",
        "{",
        "}",
        "[",
        "]",
        "]",
        "k:",
        "s:",
        "k:é",
        "s:日本😀x\u{fffd}\n\u{fffd}/é\\",
        "k:z",
        "{",
        "k:y",
        "{",
        "k:x",
        "n:0",
        "}",
        "}",
        "}",
    ];
    assert_eq!(events, expected);
}

#[test]
fn every_split_gives_the_same_events() {
    let bytes = DOCUMENT.as_bytes();
    let whole = scan(&[bytes]);
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(scan(&[left, right]), whole, "split at {at}");
    }
    let singles: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(scan(&singles), whole);
}

#[test]
fn what_stands_between_strings_is_taken_alike_whole_and_byte_by_byte() {
    let texts = [
        r#"{"a":"b","c":"d", "e": "f" ,"g" :"h","i":  "j",
"k":["l","m", "n" ,"o"],"p":{"q":"r"},"s":[["t"],"u"]}"#,
        r#"{"a":"b","c":1,"d":"e",}"#,
        r#"{"a" "b"}"#,
        r#"{"a":"b":"c"}"#,
        r#"["a","b":"c"]"#,
        r#"{"a","b"}"#,
        r#"{"a":"b""c":"d"}"#,
        r#""a","b""#,
    ];
    for text in texts {
        let singles: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(scan(&singles), scan(&[text.as_bytes()]), "{text}");
    }
    assert_eq!(scan(&[texts[0].as_bytes()]).1, Ok(()));
}

#[test]
fn refuses_what_is_not_json() {
    let bad =
        ["{", "[", "\"x", "tru", "", "  ", "\u{feff}", "{\"a\"", "{\"a\":", "[1,", "{\"a\":1,", "\"\\u12"];
    for text in bad {
        assert_eq!(scan(&[text.as_bytes()]).1, Err(Malformed::Truncated), "{text}");
    }
    for text in [
        "}",
        "]",
        "{]",
        "[}",
        "{1}",
        "{\"a\" 1}",
        "[1 2]",
        "[,]",
        "{,}",
        "trux",
        "nul1",
        "'a'",
        "\"\\x\"",
        "\"\\u12g4\"",
        "{} x",
        "1 2",
        "+1",
        "[1}",
        "{\"a\":1]",
        "a=b",
        "\0",
        "[1,]",
        "{\"a\":1,}",
    ] {
        assert_eq!(scan(&[text.as_bytes()]).1, Err(Malformed::Unexpected), "{text}");
    }
}

#[test]
fn a_lone_scalar_is_a_value() {
    assert_eq!(scan(&[b"42"]), (vec!["n:42".into()], Ok(())));
    assert_eq!(scan(&[b" null "]), (vec!["Null".into()], Ok(())));
    assert_eq!(scan(&[b"\"x\""]), (vec!["s:x".into()], Ok(())));
}

#[test]
fn stays_broken() {
    let (mut scanner, mut log) = (Scanner::new(), Log::default());
    assert!(scanner.feed(b"{]", &mut log).is_err());
    assert!(scanner.feed(b"{}", &mut log).is_err());
    assert!(scanner.is_broken() && !scanner.is_complete());
    assert_eq!(scanner.finish(&mut log), Err(Malformed::Unexpected));
}

#[test]
fn tells_where_the_value_ends() {
    let mut log = Log::default();
    let input = b"{\"a\":1}\n {\"b\":2}";
    let mut scanner = Scanner::new();
    let taken = scanner.feed(input, &mut log).unwrap();
    assert_eq!((taken, scanner.is_complete()), (9, true));
    assert_eq!(scanner.feed(&input[taken..], &mut log), Ok(0));
    let mut next = Scanner::new();
    assert_eq!(next.feed(&input[taken..], &mut log), Ok(7));
}

#[test]
fn deep_nesting_is_flattened_not_refused() {
    let levels = 100_000;
    let text = "[".repeat(levels) + "{\"k\":[7,true,\"v\"]}" + &"]".repeat(levels);
    let (events, end) = scan(&[text.as_bytes()]);
    assert_eq!(end, Ok(()));
    let bound = MAX_DEPTH as usize;
    assert_eq!(events.len(), 2 * bound + 4);
    assert_eq!(events[bound..bound + 4], ["s:k", "n:7", "True", "s:v"]);
}

#[test]
fn bytes_that_are_not_utf8_pass() {
    assert_eq!(scan(&[b"{\"a\xff\":\"\xfe\x00\n\xc3\"}"]).1, Ok(()));
}

#[test]
fn long_numbers_are_cut() {
    let long = "9".repeat(1_000);
    let (events, end) = scan(&[format!("[{long}]").as_bytes()]);
    assert_eq!(end, Ok(()));
    assert_eq!(events[1].len(), 2 + super::NUMBER_BYTES);
}

struct Tracked {
    path: Path,
    hits: Vec<(String, usize)>,
}

impl Visitor for Tracked {
    fn begin(&mut self, container: Container) {
        self.path.begin(container);
    }
    fn end(&mut self, _: Container) {
        self.path.end();
    }
    fn key(&mut self, part: &[u8], last: bool) {
        self.path.key(part, last);
    }
    fn number(&mut self, text: &[u8]) {
        for (name, there) in [
            ("usage.n", self.path.is(&["usage", "n"])),
            ("choices.*.n", self.path.is(&["choices", "*", "n"])),
            ("below usage", self.path.starts_with(&["usage"])),
            ("last n", self.path.last_name() == Some(b"n")),
        ] {
            if there {
                self.hits.push((name.into(), std::str::from_utf8(text).unwrap().parse().unwrap()));
            }
        }
    }
}

#[test]
fn path_names_the_place() {
    let text = format!(
        "{{\"usage\":{{\"n\":1,\"d\":{{\"n\":2}}}},\"choices\":[{{\"n\":3}}],\"n\":4,\"{}\":5,\"a\":{{\"usage\":{{\"n\":6}}}}}}",
        "n".repeat(99)
    );
    for size in [1, 2, 3, 1_000] {
        let mut tracked = Tracked { path: Path::new(), hits: Vec::new() };
        let mut scanner = Scanner::new();
        for piece in text.as_bytes().chunks(size) {
            scanner.feed(piece, &mut tracked).unwrap();
        }
        let hits: Vec<(&str, usize)> = tracked.hits.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        let expected = [
            ("usage.n", 1),
            ("below usage", 1),
            ("last n", 1),
            ("below usage", 2),
            ("last n", 2),
            ("choices.*.n", 3),
            ("last n", 3),
            ("last n", 4),
            ("last n", 6),
        ];
        assert_eq!(hits, expected);
    }
}
