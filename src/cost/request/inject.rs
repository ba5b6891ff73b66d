//! Asking for usage in a stream that would not state it.

use crate::cost::json::{Container, Literal, Path, Scanner, Visitor};
use std::ops::Range;

const NAME: &[u8] = b"\"stream_options\"";

/// The body with `"stream_options": {"include_usage": true}`, other options kept; `None` when nothing is to be done.
///
/// For the bodies of OpenAI's chat and completions. Nothing is done unless the body is one JSON object, `stream` is
/// the literal `true`, and the body does not say itself whether it wants usage. All bytes but those of the options stay as they are.
pub fn inject_stream_usage(body: &[u8]) -> Option<Vec<u8>> {
    let (mut scanner, mut probe) = (Scanner::new(), Probe::default());
    let mut options: Option<Options> = None;
    let mut at = 0_usize;
    while let Some(next) = body.get(at..).and_then(|rest| find(rest, NAME)) {
        let name = at.saturating_add(next);
        feed(&mut scanner, &mut probe, body.get(at..name)?)?;
        let is_member = probe.path.depth() == 1 && scanner.expects_name();
        at = name.saturating_add(NAME.len());
        feed(&mut scanner, &mut probe, body.get(name..at)?)?;
        if is_member {
            let found = read_options(&mut scanner, &mut probe, body, at)?;
            at = found.value.end;
            options = Some(found);
        }
    }
    feed(&mut scanner, &mut probe, body.get(at..)?)?;
    if scanner.finish(&mut probe).is_err() || !probe.streams {
        return None;
    }
    let Some(options) = options else { return insert(body) };
    let (place, text) = options.change(body)?;
    Some([body.get(..place.start)?, text, body.get(place.end..)?].concat())
}

/// The member with the options.
struct Options {
    value: Range<usize>,
    /// The value of the last `include_usage`.
    asked: Option<Range<usize>>,
}

impl Options {
    /// Which bytes to replace by what, so that usage is asked for; `None` when the caller has said yes or no.
    fn change(&self, body: &[u8]) -> Option<(Range<usize>, &'static [u8])> {
        let (start, end) = (self.value.start, self.value.end);
        match (&self.asked, body.get(self.value.clone())?) {
            (Some(asked), _) => {
                // A caller that says no may be one that cannot read a chunk without choices.
                let is_said = matches!(body.get(asked.clone())?, b"true" | b"false");
                (!is_said).then(|| (asked.clone(), &b"true"[..]))
            }
            (None, [b'{', members @ ..]) => {
                let after = start.saturating_add(1);
                let empty = members.trim_ascii_start().starts_with(b"}");
                let member = if empty { &b"\"include_usage\":true"[..] } else { b"\"include_usage\":true," };
                Some((after..after, member))
            }
            _ => Some((start..end, b"{\"include_usage\":true}")),
        }
    }
}

/// Puts the options in front of the first member; there is one, or the body would not stream.
fn insert(body: &[u8]) -> Option<Vec<u8>> {
    let brace = body.iter().position(|&byte| byte == b'{')?.saturating_add(1);
    let member = b"\"stream_options\":{\"include_usage\":true},";
    Some([body.get(..brace)?, &member[..], body.get(brace..)?].concat())
}

/// Reads the options, whose name ends at `at`: an object or `null`.
fn read_options(scanner: &mut Scanner, probe: &mut Probe, body: &[u8], at: usize) -> Option<Options> {
    let lead = body.get(at..)?.iter().position(|&byte| !is_before_value(byte))?;
    let start = at.saturating_add(lead);
    if !matches!(body.get(start)?, b'{' | b'n') {
        return None;
    }
    feed(scanner, probe, body.get(at..start)?)?;
    let mut asked = None;
    // The colon after the name has come, its value has not.
    let mut is_due = false;
    for (offset, byte) in body.get(start..)?.iter().enumerate() {
        let place = start.saturating_add(offset);
        if !probe.path.is(&["stream_options", "include_usage"]) {
            is_due = false;
        } else if *byte == b':' {
            is_due = true;
        } else if is_due && !is_before_value(*byte) {
            is_due = false;
            let len = match byte {
                b't' | b'n' => 4,
                b'f' => 5,
                _ => return None,
            };
            asked = Some(place..place.saturating_add(len));
        }
        feed(scanner, probe, std::slice::from_ref(byte))?;
        if probe.path.depth() == 1 && scanner.after_member() {
            return Some(Options { value: start..place.saturating_add(1), asked });
        }
    }
    None
}

const fn is_before_value(byte: u8) -> bool {
    matches!(byte, b':' | b' ' | b'\n' | b'\r' | b'\t')
}

fn feed(scanner: &mut Scanner, probe: &mut Probe, bytes: &[u8]) -> Option<()> {
    (scanner.feed(bytes, probe) == Ok(bytes.len())).then_some(())
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

#[derive(Default)]
struct Probe {
    path: Path,
    streams: bool,
}

impl Probe {
    fn value(&mut self, streams: bool) {
        if self.path.is(&["stream"]) {
            self.streams = streams;
        }
    }
}

impl Visitor for Probe {
    fn begin(&mut self, container: Container) {
        self.value(false);
        self.path.begin(container);
    }
    fn end(&mut self, _container: Container) {
        self.path.end();
    }
    fn key(&mut self, part: &[u8], last: bool) {
        self.path.key(part, last);
    }
    fn string(&mut self, _part: &[u8], _last: bool) {
        self.value(false);
    }
    fn unread(&self) -> usize {
        usize::MAX
    }
    fn number(&mut self, _text: &[u8]) {
        self.value(false);
    }
    fn literal(&mut self, literal: Literal) {
        self.value(literal == Literal::True);
    }
}

#[cfg(test)]
mod tests {
    use super::inject_stream_usage;

    fn injected(body: &str) -> Option<String> {
        inject_stream_usage(body.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_caller_that_says_no_is_left_alone() {
        for body in [
            "{\"stream\":true,\"stream_options\":{\"include_usage\":false}}",
            "{\"stream_options\":{\"include_usage\":false,\"x\":1},\"stream\":true}",
            "{\"stream_options\":{\"include_usage\":true,\"include_usage\":false},\"stream\":true}",
        ] {
            assert_eq!(injected(body), None, "{body}");
        }
    }

    #[test]
    fn options_are_added_or_completed() {
        for (body, expected) in [
            ("{\"stream\":true}", "{\"stream_options\":{\"include_usage\":true},\"stream\":true}"),
            (
                " {\"stream\" : true, \"stream_options\" : null }",
                " {\"stream\" : true, \"stream_options\" : {\"include_usage\":true} }",
            ),
            (
                "{\"stream_options\":{},\"stream\":true}",
                "{\"stream_options\":{\"include_usage\":true},\"stream\":true}",
            ),
            (
                "{\"stream\":true,\"stream_options\":{\"include_obfuscation\":false,\"include_usage\":null},\"n\":1}",
                "{\"stream\":true,\"stream_options\":{\"include_obfuscation\":false,\"include_usage\":true},\"n\":1}",
            ),
            (
                "{\"stream_options\":{\"include_usage\":null , \"x\":{\"include_usage\":true}},\"stream\":true}",
                "{\"stream_options\":{\"include_usage\":true , \"x\":{\"include_usage\":true}},\"stream\":true}",
            ),
            (
                "{\"stream_options\":{ \"x\":[1]},\"stream\":true}",
                "{\"stream_options\":{\"include_usage\":true, \"x\":[1]},\"stream\":true}",
            ),
            (
                "{\"m\":{\"stream_options\":{}},\"c\":\"\\\"stream_options\\\"\",\"d\":\"stream_options\",\"stream\":true}",
                "{\"stream_options\":{\"include_usage\":true},\"m\":{\"stream_options\":{}},\
                 \"c\":\"\\\"stream_options\\\"\",\"d\":\"stream_options\",\"stream\":true}",
            ),
            (
                "{\"stream\":false,\"stream\":true}",
                "{\"stream_options\":{\"include_usage\":true},\"stream\":false,\"stream\":true}",
            ),
        ] {
            assert_eq!(injected(body).as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_bodies_stay() {
        for body in [
            "",
            "{}",
            "[]",
            "{\"stream\":false}",
            "{\"stream\":\"true\"}",
            "{\"stream\":1}",
            "{\"stream\":true,\"stream\":false}",
            "{\"stream\":[true]}",
            "{\"x\":{\"stream\":true}}",
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
            "{\"stream\":true,\"stream_options\":7}",
            "{\"stream\":true,\"stream_options\":\"null\"}",
            "{\"stream\":true,\"stream_options\":[{}]}",
            "{\"stream\":true,\"stream_options\":false,\"n\":1}",
            "{\"stream\":true,\"stream_options\":{\"include_usage\":7}}",
            "{\"stream\":true,\"stream_options\":{\"include_usage\":\":true\"}}",
            "{\"stream\":true,\"stream_options\":{",
            "{\"stream\":true",
            "{\"stream\":true} x",
            "\u{1f}\u{8b}gzip",
        ] {
            assert_eq!(injected(body), None, "{body}");
        }
    }
}
