//! The little that is read of `multipart/form-data`: the `model` field.

use super::MODEL_BYTES;

/// The body may be a form: it starts with a boundary.
pub(super) fn is_form(body: &[u8]) -> bool {
    body.starts_with(b"--")
}

/// The value of the form field `name`, when it is short text.
///
/// The file part may stand before it (curl) and is searched like everything else; what looks like a field header
/// inside a file would be taken for one, which costs a wrong pool at most and only the caller itself.
pub(super) fn field<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let header = format!("name=\"{name}\"");
    let mut rest = body;
    while let Some(at) = find(rest, header.as_bytes()) {
        rest = rest.get(at.saturating_add(header.len())..)?;
        let Some(value) = rest.strip_prefix(b"\r\n").and_then(value) else { continue };
        return Some(value);
    }
    None
}

/// The text after the rest of a part's head, up to the line end.
fn value(after_header: &[u8]) -> Option<&str> {
    let start = if after_header.starts_with(b"\r\n") {
        2
    } else {
        find(after_header.get(..MODEL_BYTES.min(after_header.len()))?, b"\r\n\r\n")?.saturating_add(4)
    };
    let text = after_header.get(start..)?;
    let text = text.get(..text.len().min(MODEL_BYTES))?;
    let line = text.get(..find(text, b"\r\n")?)?;
    std::str::from_utf8(line).ok().filter(|line| !line.is_empty())
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
