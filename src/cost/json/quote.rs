//! Writing a string.

use core::fmt::Write as _;

/// Appends `text` as a JSON string.
pub fn quote(out: &mut String, text: &str) {
    out.push('"');
    // Most names hold nothing special, and bytes are looked at faster than characters.
    if !text.bytes().any(|byte| is_special(char::from(byte))) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for piece in text.split_inclusive(is_special) {
        let mut rest = piece.chars();
        match rest.next_back() {
            Some(c @ ('"' | '\\')) => out.extend([rest.as_str(), "\\", c.encode_utf8(&mut [0; 4])]),
            Some(c) if is_special(c) => {
                out.push_str(rest.as_str());
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push_str(piece),
        }
    }
    out.push('"');
}

const fn is_special(c: char) -> bool {
    matches!(c, '"' | '\\' | ..'\u{20}')
}
