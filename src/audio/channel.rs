//! Which channel of a recording is heard. Averaging is never the default: two channels in
//! opposite phase average to silence, and a far-end speaker on channel 1 becomes babble.

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::AudioError;

/// The channel to use; in a config `"mono"`, `"mix"` or a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// Only recordings with one channel are accepted.
    #[default]
    MonoOnly,
    /// The mean of all channels.
    Mix,
    /// One channel, counted from 0.
    Index(usize),
}

impl Serialize for Channel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Channel::MonoOnly => serializer.serialize_str("mono"),
            Channel::Mix => serializer.serialize_str("mix"),
            Channel::Index(index) => serializer.serialize_u64(*index as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Channel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Channel, D::Error> {
        struct ChannelVisitor;
        impl Visitor<'_> for ChannelVisitor {
            type Value = Channel;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("\"mono\", \"mix\" or the number of a channel (0 is the first)")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Channel, E> {
                match text {
                    "mono" => Ok(Channel::MonoOnly),
                    "mix" => Ok(Channel::Mix),
                    // `--set data.channel=1` gives a text, since the default is one.
                    _ => text
                        .parse()
                        .map(Channel::Index)
                        .map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_u64<E: Error>(self, index: u64) -> Result<Channel, E> {
                Ok(Channel::Index(index as usize))
            }
            fn visit_i64<E: Error>(self, index: i64) -> Result<Channel, E> {
                let bad = || E::invalid_value(serde::de::Unexpected::Signed(index), &self);
                usize::try_from(index).map(Channel::Index).map_err(|_| bad())
            }
        }
        deserializer.deserialize_any(ChannelVisitor)
    }
}

/// Turns interleaved frames into mono samples as they are decoded.
pub(super) struct ChannelPicker {
    channel: Channel,
    path: PathBuf,
    /// Of the recording, once its header was read.
    num_channels: Cell<usize>,
}

impl ChannelPicker {
    pub(super) fn new(channel: Channel, path: &Path) -> ChannelPicker {
        ChannelPicker { channel, path: path.into(), num_channels: Cell::new(0) }
    }

    /// Refuses a channel count that the choice does not cover.
    pub(super) fn check(&self, channels: usize) -> Result<(), AudioError> {
        self.num_channels.set(channels);
        match self.channel {
            Channel::MonoOnly if channels != 1 => {
                Err(AudioError::Channels { path: self.path.clone(), channels })
            }
            Channel::Index(index) if index >= channels => {
                Err(AudioError::NoSuchChannel { path: self.path.clone(), index, channels })
            }
            _ => Ok(()),
        }
    }

    /// The channels of the recording that was checked.
    pub(super) fn num_channels(&self) -> usize {
        self.num_channels.get()
    }

    /// Appends the mono samples of interleaved frames (at least one channel).
    pub(super) fn append(&self, interleaved: &[f32], channels: usize, out: &mut Vec<f32>) {
        let frames = interleaved.chunks_exact(channels);
        match self.channel {
            _ if channels == 1 => out.extend_from_slice(interleaved),
            Channel::MonoOnly => out.extend(frames.map(|frame| frame[0])),
            Channel::Index(index) => out.extend(frames.map(|frame| frame[index])),
            Channel::Mix => {
                out.extend(frames.map(|frame| frame.iter().sum::<f32>() / channels as f32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_spelling_round_trips() {
        for (channel, text) in
            [(Channel::MonoOnly, "\"mono\""), (Channel::Mix, "\"mix\""), (Channel::Index(1), "1")]
        {
            assert_eq!(serde_json::to_string(&channel).unwrap(), text);
            assert_eq!(serde_json::from_str::<Channel>(text).unwrap(), channel);
        }
        for bad in ["\"left\"", "-1", "true", "1.5"] {
            let text = serde_json::from_str::<Channel>(bad).unwrap_err().to_string();
            assert!(text.contains("\"mix\""), "{text}");
        }
    }
}
