//! Globs with `*` only.

/// A pattern in which `*` stands for any run of bytes, also none. Everything else stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// Lower-cased when compared without case.
    pattern: String,
    ignore_case: bool,
    /// What must stand before the first `*`; the whole text when there is none.
    head: Vec<u8>,
    /// What must stand between two `*`, in order.
    middle: Vec<Needle>,
    /// What must stand after the last `*`; `None` when there is none.
    tail: Option<Vec<u8>>,
}

impl Glob {
    /// Any text is a valid pattern; whether it can ever match a host, path or model is for the caller to know.
    /// With `ignore_case`, ASCII letters are compared without case.
    pub fn new(pattern: &str, ignore_case: bool) -> Self {
        let pattern = if ignore_case { pattern.to_ascii_lowercase() } else { pattern.to_owned() };
        let mut pieces = pattern.split('*').map(|piece| piece.as_bytes().to_vec());
        let head = pieces.next().unwrap_or_default();
        let tail = pieces.next_back();
        let middle = pieces.filter(|piece| !piece.is_empty()).map(Needle::new).collect();
        Self { pattern, ignore_case, head, middle, tail }
    }

    /// The pattern, lower-cased when it ignores case.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether it stands for more than one text.
    pub fn has_star(&self) -> bool {
        self.tail.is_some()
    }

    /// Whether the whole of `text` fits. Takes time linear in the text, whatever the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some((front, rest)) = text.split_at_checked(self.head.len()) else { return false };
        if !self.same(front, &self.head) {
            return false;
        }
        let Some(tail) = &self.tail else { return rest.is_empty() };
        let Some(cut) = rest.len().checked_sub(tail.len()) else { return false };
        let Some((mut between, back)) = rest.split_at_checked(cut) else { return false };
        if !self.same(back, tail) {
            return false;
        }
        // The leftmost place of each piece leaves the most room for the next ones.
        for needle in &self.middle {
            match needle.find_end(between, self.ignore_case).and_then(|end| between.get(end..)) {
                Some(after) => between = after,
                None => return false,
            }
        }
        true
    }

    fn same(&self, text: &[u8], piece: &[u8]) -> bool {
        if self.ignore_case { text.eq_ignore_ascii_case(piece) } else { text == piece }
    }
}

/// A piece to find, with its failure table (Knuth, Morris, Pratt): no byte of a text is looked at twice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Needle {
    bytes: Vec<u8>,
    /// For each prefix length, the longest proper prefix that is also its suffix.
    fallback: Vec<usize>,
}

impl Needle {
    fn new(bytes: Vec<u8>) -> Self {
        let mut fallback = vec![0_usize; 1];
        let mut matched = 0;
        for &byte in bytes.iter().skip(1) {
            matched = advance(&bytes, &fallback, matched, byte);
            fallback.push(matched);
        }
        Self { bytes, fallback }
    }

    /// Offset just behind the first occurrence.
    fn find_end(&self, text: &[u8], ignore_case: bool) -> Option<usize> {
        let mut matched = 0;
        for (offset, &byte) in text.iter().enumerate() {
            let byte = if ignore_case { byte.to_ascii_lowercase() } else { byte };
            matched = advance(&self.bytes, &self.fallback, matched, byte);
            if matched == self.bytes.len() {
                return Some(offset.saturating_add(1));
            }
        }
        None
    }
}

/// Length of the piece's prefix that ends in `byte`, when `matched` bytes of it stood before.
fn advance(piece: &[u8], fallback: &[usize], mut matched: usize, byte: u8) -> usize {
    loop {
        if piece.get(matched) == Some(&byte) {
            return matched.saturating_add(1);
        }
        let Some(longest) = matched.checked_sub(1) else { return 0 };
        matched = fallback.get(longest).copied().unwrap_or(0);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::Glob;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let glob = Glob::new(pattern, false);
        for text in yes {
            assert!(glob.matches(text.as_bytes()), "{pattern} should match {text:?}");
        }
        for text in no {
            assert!(!glob.matches(text.as_bytes()), "{pattern} should not match {text:?}");
        }
    }

    #[test]
    fn stars_stand_for_any_run_and_nothing_else_is_special() {
        check("m-chat", &["m-chat"], &["", "m-chat-x", "xm-chat", "M-chat", "m?chat"]);
        check("m-chat-*", &["m-chat-", "m-chat-x"], &["m-chat", "xm-chat-"]);
        check("*", &["", "a", "a/b c"], &[]);
        check("**", &["", "a"], &[]);
        check("a*a", &["aa", "aba"], &["a", "ab"]);
        check("*.test", &[".test", "a.test"], &["a.test.", "atest"]);
        check("/v1/*/chat/*", &["/v1/x/chat/", "/v1/a/b/chat/c"], &["/v1/chat/c", "/v1/x/chat"]);
        check("*aab*aab", &["aabaab", "aaabxaab"], &["aab", "aabaa"]);
        check("a?[b]\\", &["a?[b]\\"], &["axb"]);
        check("openrouter/*", &["openrouter/google/gemini:free@1"], &["openrouter"]);
    }

    #[test]
    fn case_is_ignored_only_when_asked() {
        assert!(Glob::new("M-*-Chat", true).matches(b"m-X-cHAT"));
        assert!(!Glob::new("M-*-Chat", false).matches(b"m-X-cHAT"));
    }

    #[test]
    fn text_need_not_be_utf8() {
        assert!(Glob::new("/v1/*", false).matches(b"/v1/\xFF\xFE"));
        assert!(!Glob::new("/v1/?", false).matches(b"/v1/\xFF"));
    }

    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => by_definition(rest, text),
            (Some((b'*', rest)), Some((_, after))) => {
                by_definition(rest, text) || by_definition(pattern, after)
            }
            (Some((p, rest)), Some((t, after))) => p == t && by_definition(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*]{0,8}", text in "[ab]{0,12}") {
            prop_assert_eq!(
                Glob::new(&pattern, false).matches(text.as_bytes()),
                by_definition(pattern.as_bytes(), text.as_bytes())
            );
        }
    }
}
