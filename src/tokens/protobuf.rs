//! The wire format of Protocol Buffers, as much as a SentencePiece model needs: fields by number, as
//! numbers, floats or bytes. Lengths are checked against what is there; unknown fields are skipped.
//! <https://protobuf.dev/programming-guides/encoding/>

/// A field's content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Number(u64),
    Float(f32),
    Bytes(&'a [u8]),
    /// Eight bytes: none of the fields that are read has them.
    Other,
}

/// The fields of a message in their order; the last item is an error if the message is broken.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message, len: message.len() }
    }

    fn broken<T>(&mut self, what: &str) -> Result<T, String> {
        let at = self.len - self.rest.len();
        self.rest = &[];
        Err(format!("{what} at byte {at} of a message of {}", self.len))
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.rest.split_first() else {
                return self.broken("a number is cut off");
            };
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        self.broken("a number is longer than ten bytes")
    }

    fn bytes(&mut self, len: u64) -> Result<&'a [u8], String> {
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let Some((bytes, rest)) = split else {
            return self.broken(&format!("{len} bytes are promised and not there"));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), String> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => {
                self.bytes(8)?;
                Value::Other
            }
            2 => {
                let len = self.number()?;
                Value::Bytes(self.bytes(len)?)
            }
            5 => {
                let bytes = self.bytes(4)?;
                Value::Float(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            kind => return self.broken(&format!("a field of the unknown kind {kind}")),
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.field())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u64, Value<'_>)>, String> {
        Fields::new(bytes).collect()
    }

    #[test]
    fn fields_of_every_kind_are_read() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 2, b'h', b'i', // 2: "hi"
            0x1d, 0, 0, 0x80, 0x3f, // 3: 1.0
            0x21, 1, 2, 3, 4, 5, 6, 7, 8, // 4: eight bytes
        ];
        assert_eq!(
            read(&message).unwrap(),
            [
                (1, Value::Number(150)),
                (2, Value::Bytes(b"hi")),
                (3, Value::Float(1.0)),
                (4, Value::Other)
            ]
        );
        assert_eq!(read(&[]).unwrap(), []);
    }

    #[test]
    fn every_truncation_and_wild_length_is_an_error() {
        let message = [0x12, 4, b'a', b'b', b'c', b'd'];
        for len in 1..message.len() {
            assert!(read(&message[..len]).is_err(), "{len}");
        }
        let wild = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert!(read(&wild).unwrap_err().contains("18446744073709551615 bytes"));
        assert!(read(&[0x80; 11]).is_err());
        assert!(read(&[0x0b]).unwrap_err().contains("unknown kind 3"));
    }
}
