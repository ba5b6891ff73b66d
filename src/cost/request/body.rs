//! What the scanner's events mean in a request body.

use super::fields::{self, Mode};
use super::files::Files;
use super::start::Start;
use super::strings::{HEAD, Sink};
use super::{MODEL_BYTES, number};
use crate::cost::dialect::{Dialect, Endpoint, Names, Operation, Row};
use crate::cost::json::{Container, Literal, Path, Visitor};
use crate::cost::text::{Family, Sample};

/// Places of one row that hold numbers of a kind; the longest list has 7.
const PLACES: usize = 8;

/// LLM tokens around one message (role, separators), and once to prime the answer; OpenAI's published counting
/// recipe. Anthropic's come to about the same.
const PER_MESSAGE: u64 = 4;
const PER_CALL: u64 = 3;

/// Anthropic adds a system prompt as soon as tools are offered: 290 to 675 by model.
const CLAUDE_TOOLS: u64 = 400;
/// OpenAI's frame around the tools.
const OTHER_TOOLS: u64 = 9;

/// The visitor.
pub(super) struct Body {
    pub(super) row: &'static Row,
    pub(super) operation: Operation,
    pub(super) path: Path,
    pub(super) is_object: bool,
    pub(super) model: Start<MODEL_BYTES>,
    pub(super) stream: Option<bool>,
    pub(super) include_usage: bool,
    pub(super) caps: [Option<u64>; PLACES],
    pub(super) copies: [Option<u64>; PLACES],
    /// LLM-token ids.
    pub(super) ids: u64,
    pub(super) prompts: u64,
    pub(super) messages: u64,
    pub(super) tools: bool,
    pub(super) text: Sample,
    /// Mode of the member at the root, and of the present place.
    pub(super) mode_at_root: Mode,
    pub(super) mode: Mode,
    /// Inside prose, the depth from which values are JSON.
    pub(super) json_from: Option<usize>,
    /// Inside prose, the depth from which values are hidden.
    pub(super) hidden_from: Option<usize>,
    /// The next JSON value follows another.
    pub(super) comma: bool,
    /// A part of the present name was seen.
    pub(super) key_open: bool,
    pub(super) sink: Sink,
    pub(super) head: Start<HEAD>,
    pub(super) files: Files,
}

impl Body {
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self {
            row: endpoint.shape.row(),
            operation: endpoint.operation,
            path: Path::new(),
            is_object: false,
            model: Start::new(),
            stream: None,
            include_usage: false,
            caps: [None; PLACES],
            copies: [None; PLACES],
            ids: 0,
            prompts: 0,
            messages: 0,
            tools: false,
            text: Sample::new(),
            mode_at_root: Mode::Skip,
            mode: Mode::Skip,
            json_from: None,
            hidden_from: None,
            comma: false,
            key_open: false,
            sink: Sink::None,
            head: Start::new(),
            files: Files::default(),
        }
    }

    pub(super) const fn is_object(&self) -> bool {
        self.is_object
    }

    pub(super) fn model(&self) -> Option<String> {
        self.model.text()
    }

    pub(super) const fn stream(&self) -> Option<bool> {
        self.stream
    }

    pub(super) const fn include_usage(&self) -> bool {
        self.include_usage
    }

    /// The largest declared output cap.
    pub(super) fn cap(&self) -> Option<u64> {
        self.caps.iter().flatten().copied().max()
    }

    /// Answers that will be generated, at least 1.
    pub(super) fn answers(&self) -> u64 {
        let copies = self.copies.iter().flatten().copied().max().unwrap_or(1).max(1);
        copies.saturating_mul(self.prompts.max(1))
    }

    /// The bytes ended inside base64.
    pub(super) const fn in_file(&self) -> bool {
        matches!(self.sink, Sink::File(..))
    }

    /// Bytes of base64 so far.
    pub(super) fn file_bytes(&self) -> u64 {
        let open = if let Sink::File(reader, _) = &self.sink { reader.length() } else { 0 };
        self.files.bytes.saturating_add(open)
    }

    /// What pictures, sound and documents cost so far.
    pub(super) fn file_llm_tokens(&self, model: Option<&str>, shape: Dialect) -> u64 {
        let open = if let Sink::File(reader, expected) = &self.sink {
            reader.item(*expected).llm_tokens(model, shape)
        } else {
            0
        };
        self.files.llm_tokens(model, shape).saturating_add(open)
    }

    /// The estimate of the input so far, at least 1.
    pub(super) fn input(&self, model: Option<&str>, shape: Dialect) -> u64 {
        let family = Family::of(model, shape);
        let talks = matches!(self.operation, Operation::Chat | Operation::Responses);
        let messages = if talks { self.messages.max(1) } else { 0 };
        let claude = matches!(family, Family::Claude | Family::ClaudeDense);
        [
            self.text.llm_tokens(family),
            self.ids,
            self.file_llm_tokens(model, shape),
            messages.saturating_mul(PER_MESSAGE),
            if talks { PER_CALL } else { 0 },
            match (self.tools, claude) {
                (false, _) => 0,
                (true, true) => CLAUDE_TOOLS,
                (true, false) => OTHER_TOOLS,
            },
        ]
        .iter()
        .fold(0_u64, |sum, part| sum.saturating_add(*part))
        .max(1)
    }

    pub(super) fn is_json(&self) -> bool {
        self.hidden_from.is_none() && (self.mode == Mode::Json || self.json_from.is_some())
    }

    /// Emits what stands before a JSON value or name.
    pub(super) fn json_gap(&mut self) {
        if self.comma {
            self.text.feed(b",");
        }
        self.comma = false;
    }

    fn json_scalar(&mut self, text: &[u8]) {
        if self.is_json() {
            self.json_gap();
            self.text.feed(text);
            self.comma = true;
        }
    }

    fn set(places: &[Names], path: &Path, kept: &mut [Option<u64>; PLACES], value: Option<u64>) {
        if path.depth() > 2 {
            return;
        }
        for (names, slot) in places.iter().zip(kept) {
            if path.is(names) {
                *slot = value;
            }
        }
    }

    /// A value begins: what an earlier member of the same name said, or said below it, does not count any more.
    pub(super) fn forget(&mut self) {
        let depth = self.path.depth();
        // Elements have no name that could come twice, and a body may have thousands of them.
        if depth > 2 || self.path.last_name().is_none() {
            return;
        }
        let (path, row) = (&self.path, self.row);
        for (places, kept) in [(row.caps, &mut self.caps), (row.copies, &mut self.copies)] {
            for (names, slot) in places.iter().zip(kept) {
                if names.get(..depth).is_some_and(|start| path.is(start)) {
                    *slot = None;
                }
            }
        }
        if path.is(&["stream"]) {
            self.stream = None;
        } else if path.is(&["stream_options"]) || path.is(&["stream_options", "include_usage"]) {
            self.include_usage = false;
        } else if path.is(&["model"]) {
            self.model = Start::new();
        } else if path.is(&["prompt"]) {
            self.prompts = 0;
        }
    }

    /// Names the value at hand by its member, in an array by the array's member.
    pub(super) fn place(&self) -> &[u8] {
        let last = self.path.last_name();
        last.or_else(|| self.path.name(self.path.depth().checked_sub(2)?)).unwrap_or_default()
    }
}

impl Visitor for Body {
    fn begin(&mut self, container: Container) {
        self.forget();
        let depth = self.path.depth();
        let object = container == Container::Object;
        if depth == 0 {
            self.is_object = object;
        }
        if depth == 2 {
            let turns = ["messages", "contents", "input", "inputs"];
            if object && turns.iter().any(|name| self.path.is(&[name, "*"])) {
                self.messages = self.messages.saturating_add(1);
            }
            if self.operation == Operation::Completions && self.path.is(&["prompt", "*"]) {
                self.prompts = self.prompts.saturating_add(1);
            }
            self.tools |= self.path.is(&["tools", "*"]) || self.path.is(&["toolConfig", "tools"]);
        }
        if self.mode == Mode::Prose && self.hidden_from.is_none() && self.json_from.is_none() && depth >= 2 {
            let name = self.path.last_name().unwrap_or_default();
            if fields::is_hidden(name) {
                self.hidden_from = Some(depth);
            } else if object && fields::is_json_object(name) {
                self.json_from = Some(depth);
                self.comma = false;
            }
        }
        if self.is_json() {
            self.json_gap();
            self.text.feed(if object { b"{" } else { b"[" });
        }
        self.files.scope();
        self.path.begin(container);
    }

    fn end(&mut self, container: Container) {
        self.files.settle(self.path.depth());
        self.path.end();
        let depth = self.path.depth();
        if self.is_json() {
            self.text.feed(if container == Container::Object { b"}" } else { b"]" });
            self.comma = true;
            if self.json_from == Some(depth) || depth <= 1 {
                self.json_from = None;
                self.text.cut();
                self.comma = false;
            }
        }
        if self.hidden_from == Some(depth) {
            self.hidden_from = None;
        }
    }

    fn key(&mut self, part: &[u8], last: bool) {
        self.path.key(part, last);
        let depth = self.path.depth();
        if !self.key_open && depth <= 2 {
            // Leaves the mode of the member before.
            self.mode = if depth == 2 { self.mode_at_root } else { Mode::Skip };
            if depth == 1 {
                (self.json_from, self.hidden_from, self.comma) = (None, None, false);
            }
        }
        if self.is_json() {
            if !self.key_open {
                self.json_gap();
                self.text.feed(b"\"");
            }
            self.text.feed(part);
            if last {
                self.text.feed(b"\":");
            }
        }
        self.key_open = !last;
        if last && depth <= 2 {
            self.mode = fields::mode(self.row, &self.path);
            if depth == 1 {
                self.mode_at_root = self.mode;
            }
        }
    }

    fn string(&mut self, part: &[u8], last: bool) {
        self.string_part(part, last);
    }

    fn escape(&mut self, extra: usize) {
        if matches!(self.sink, Sink::Text) {
            self.text.extra(extra);
        }
    }

    fn unread(&self) -> usize {
        match self.sink {
            Sink::Text => self.text.unread(),
            Sink::Ignore => usize::MAX,
            _ => 0,
        }
    }

    fn skipped(&mut self, bytes: usize) {
        self.escape(bytes);
    }

    fn number(&mut self, text: &[u8]) {
        self.forget();
        Self::set(self.row.caps, &self.path, &mut self.caps, number::count(text));
        Self::set(self.row.copies, &self.path, &mut self.copies, number::count(text));
        let listed = ["prompt", "input"];
        let id = |name: &&str| self.path.is(&[name, "*"]) || self.path.is(&[name, "*", "*"]);
        if self.mode == Mode::Prose && self.path.depth() <= 3 && listed.iter().any(id) {
            self.ids = self.ids.saturating_add(1);
        }
        self.json_scalar(text);
    }

    fn literal(&mut self, literal: Literal) {
        self.forget();
        let value = match literal {
            Literal::True => Some(true),
            Literal::False => Some(false),
            Literal::Null => None,
        };
        if self.path.is(&["stream"]) {
            self.stream = value;
        } else if self.path.is(&["stream_options", "include_usage"]) {
            self.include_usage = value == Some(true);
        }
        self.json_scalar(match literal {
            Literal::True => b"true",
            Literal::False => b"false",
            Literal::Null => b"null",
        });
    }
}
