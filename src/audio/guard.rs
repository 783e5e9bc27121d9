//! The one place where a panic of a decoder from elsewhere is caught: a last resort, so that one file in a
//! million cannot end a training run. It becomes an error that names the file and says whose fault it is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::AudioError;

/// Runs `decode`, whose state is dropped when it panics.
pub(super) fn guarded<T>(
    path: &Path,
    format: &'static str,
    decode: impl FnOnce() -> Result<T, AudioError>,
) -> Result<T, AudioError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "it did not say why".into());
        Err(AudioError::Decoder { path: path.into(), format, reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_names_file_and_culprit() {
        let index = std::hint::black_box(7);
        let panics = || Ok([0_u8; 4][index]);
        let text = guarded(Path::new("a.mp3"), "MP3", panics).unwrap_err().to_string();
        for part in ["a.mp3", "decoder of MP3", "out of bounds", "fault of the decoder", "report"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(guarded(Path::new("a"), "MP3", || Ok(())).is_ok());
    }
}
