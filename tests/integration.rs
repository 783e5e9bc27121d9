//! The one integration binary: it runs the real programs, on recordings that it makes itself.
//!
//! `sandbox` is what every test stands on. A new test belongs to the file whose first line names
//! its subject; a new file is worth it only for a new subject (each test binary links all of Burn,
//! so there is one).

// The sandbox is test code too: where it cannot go on, the test has failed.
#![allow(clippy::unwrap_used)]

mod sandbox;
mod tones;

// What a person does: train, evaluate, interrupt, resume.
mod augment;
mod features_on;
mod interrupt_and_resume;
mod start_and_export;
mod tokens;
mod train_and_eval;

// What other tools have, read and converted.
mod import;

// What goes wrong: each fault has an exit code, a place and a way out.
mod bad_audio;
mod bad_config;
mod bad_disk;
mod bad_manifest;
mod bad_text;
mod check;

// What a GPU computes.
#[cfg(feature = "wgpu")]
mod gpu;

// What may not change unnoticed.
mod layers;
mod surfaces;
