//! Header maps and the byte format in which they cross the boundary.

/// Header fields in order; names in lower case, values any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(Vec<u8>, Vec<u8>)>);

impl Headers {
    /// Fields from text pairs.
    pub fn from_text(fields: &[(&str, &str)]) -> Self {
        let mut headers = Self::default();
        for (name, value) in fields {
            headers.add(name.as_bytes(), value.as_bytes());
        }
        headers
    }

    /// The first value of `name`.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    /// The first value of `name` as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// How often `name` occurs.
    pub fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).count()
    }

    /// Appends a field.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        self.0.push((name.to_ascii_lowercase(), value.to_vec()));
    }

    /// Removes every field called `name`.
    pub fn remove(&mut self, name: &[u8]) {
        self.0.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
    }

    /// Replaces every field called `name` by one.
    pub fn replace(&mut self, name: &[u8], value: &[u8]) {
        match self.0.iter().position(|(n, _)| n.eq_ignore_ascii_case(name)) {
            Some(at) => {
                let kept = self.0.remove(at).0;
                self.remove(name);
                self.0.insert(at.min(self.0.len()), (kept, value.to_vec()));
            }
            None => self.add(name, value),
        }
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Count, then both lengths of each field, then the NUL-terminated names and values.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.0.len() as u32).to_le_bytes().to_vec();
        for (name, value) in &self.0 {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
        }
        for (name, value) in &self.0 {
            for part in [name, value] {
                bytes.extend(part);
                bytes.push(0);
            }
        }
        bytes
    }

    /// Reads what [`Self::encode`] writes; `None` when the lengths do not fit.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let count = read_u32(bytes, 0)? as usize;
        let mut at = 4 + count.checked_mul(8)?;
        let mut headers = Self::default();
        for index in 0..count {
            let name_len = read_u32(bytes, 4 + index * 8)? as usize;
            let value_len = read_u32(bytes, 8 + index * 8)? as usize;
            let name = bytes.get(at..at + name_len)?;
            at += name_len + 1;
            let value = bytes.get(at..at + value_len)?;
            at += value_len + 1;
            headers.add(name, value);
        }
        (at <= bytes.len()).then_some(headers)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}
