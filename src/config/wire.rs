//! A configuration given as a `google.protobuf.Struct`.
//!
//! Envoy hands such a configuration to the plugin as the serialized message, not as JSON (seen on 1.36.4 and 1.40.0).
//! This reads that message into the tree that JSON text gives: total, and bounded in depth. Numbers are doubles, as the
//! message has them; members are sorted by name, because the message has no order.

use super::json::Json;
use serde_json::Number;

/// Deepest nesting that is read; no sound configuration comes near.
const MAX_DEPTH: u32 = 64;

/// The object of a serialized `Struct`; `None` when the bytes are no such message.
pub(super) fn decode_struct(bytes: &[u8]) -> Option<Json> {
    object(bytes, 0)
}

/// One field of a message: its number and what it holds.
enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message one by one.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The next field; `Ok(None)` at the end, `Err(())` when the bytes are no message.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, ()> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let (head, rest) = self.0.split_first_chunk::<8>().ok_or(())?;
                self.0 = rest;
                Field::Fixed64(*head)
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(drop)?;
                let (head, rest) = self.0.split_at_checked(length).ok_or(())?;
                self.0 = rest;
                Field::Bytes(head)
            }
            _ => return Err(()),
        };
        Ok(Some((tag >> 3, field)))
    }

    fn varint(&mut self) -> Result<u64, ()> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(())?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(())
    }
}

/// `Struct { map<string, Value> fields = 1; }`
fn object(bytes: &[u8], depth: u32) -> Option<Json> {
    let mut members = Vec::new();
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next().ok()? {
        let (1, Field::Bytes(entry)) = field else { return None };
        members.push(member(entry, depth)?);
    }
    Some(Json::Object(crate::sorted::sorted(members, |a: &(String, Json), b| a.0.cmp(&b.0))))
}

/// An entry of the map: `{ string key = 1; Value value = 2; }`
fn member(bytes: &[u8], depth: u32) -> Option<(String, Json)> {
    let (mut name, mut value) = (String::new(), Json::Null);
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next().ok()? {
        match field {
            (1, Field::Bytes(text)) => name = String::from_utf8(text.to_vec()).ok()?,
            (2, Field::Bytes(inner)) => value = any(inner, depth)?,
            _ => return None,
        }
    }
    Some((name, value))
}

/// `Value { oneof: null = 1, number = 2, string = 3, bool = 4, struct = 5, list = 6; }`
fn any(bytes: &[u8], depth: u32) -> Option<Json> {
    if depth >= MAX_DEPTH {
        return None;
    }
    let deeper = depth.saturating_add(1);
    let mut value = Json::Null;
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next().ok()? {
        value = match field {
            (1, Field::Varint(_)) => Json::Null,
            (2, Field::Fixed64(bits)) => Json::Number(Number::from_f64(f64::from_le_bytes(bits))?),
            (3, Field::Bytes(text)) => Json::Text(String::from_utf8(text.to_vec()).ok()?),
            (4, Field::Varint(bit)) => Json::Bool(bit != 0),
            (5, Field::Bytes(inner)) => object(inner, deeper)?,
            (6, Field::Bytes(inner)) => list(inner, deeper)?,
            _ => return None,
        };
    }
    Some(value)
}

/// `ListValue { repeated Value values = 1; }`
fn list(bytes: &[u8], depth: u32) -> Option<Json> {
    let mut items = Vec::new();
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next().ok()? {
        let (1, Field::Bytes(inner)) = field else { return None };
        items.push(any(inner, depth)?);
    }
    Some(Json::Array(items))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Json {
        serde_json::from_str(json).unwrap()
    }

    /// `{"a": 1, "b": {"c": [1, 2.5, true]}}` as Envoy 1.40.0 handed it over.
    const SEEN: &[u8] = b"\n\x0e\n\x01a\x12\t\x11\0\0\0\0\0\0\xf0\x3f\n*\n\x01b\x12%*#\n!\n\x01c\x12\x1c2\x1a\n\t\x11\0\0\0\0\0\0\xf0\x3f\n\t\x11\0\0\0\0\0\0\x04@\n\x02 \x01";

    #[test]
    fn a_message_seen_on_envoy_reads_as_its_json() {
        assert_eq!(decode_struct(SEEN), Some(tree(r#"{"a": 1.0, "b": {"c": [1.0, 2.5, true]}}"#)));
    }

    #[test]
    fn texts_and_nulls_read() {
        let bytes = b"\n\x0a\n\x01a\x12\x05\x1a\x03\xe2\x82\xac\n\x07\n\x01b\x12\x02\x08\0";
        assert_eq!(decode_struct(bytes), Some(tree(r#"{"a": "€", "b": null}"#)));
    }

    #[test]
    fn no_cut_and_no_changed_byte_of_a_message_traps() {
        for end in 0..SEEN.len() {
            let _ = decode_struct(&SEEN[..end]);
        }
        for at in 0..SEEN.len() {
            for byte in 0..=255 {
                let mut changed = SEEN.to_vec();
                changed[at] = byte;
                let _ = decode_struct(&changed);
            }
        }
        assert_eq!(decode_struct(&SEEN[..SEEN.len() - 1]), None);
    }

    #[test]
    fn endless_nesting_is_refused() {
        let mut bytes = Vec::new();
        for _ in 0..5000 {
            let entry = [
                b"\n\x01a\x12".to_vec(),
                length(bytes.len() + 1 + length(bytes.len()).len()),
                vec![0x2A],
                length(bytes.len()),
                bytes,
            ]
            .concat();
            bytes = [vec![0x0A], length(entry.len()), entry].concat();
        }
        assert_eq!(decode_struct(&bytes), None);
    }

    fn length(mut value: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push((value & 0x7F) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }
}
