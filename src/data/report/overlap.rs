//! Utterances that are there twice, and what two splits share. The same audio is the same samples, in
//! whatever file; silence, which is all alike, is told of elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Example, Finding, Severity, Split, Tally};
use crate::data::Surveyed;
use crate::wording::{counted, plural};

/// Of one split: the same audio with the same transcript, and with another.
pub(super) fn within(split: &Split) -> Vec<Finding> {
    let mut first: HashMap<[u8; 16], &Surveyed> = HashMap::new();
    let (mut duplicates, mut contradictions) = (Tally::default(), Tally::default());
    for (fingerprint, kept) in audible(split) {
        let Some(before) = first.get(&fingerprint) else {
            first.insert(fingerprint, kept);
            continue;
        };
        let place = || before.utterance.place();
        if before.text() == kept.text() {
            duplicates.add(|| Example::of(kept, format!("the same audio and text as {}", place())));
        } else {
            contradictions.add(|| {
                let detail = format!("{:?}, but {:?} in {}", kept.text(), before.text(), place());
                Example::of(kept, detail)
            });
        }
    }
    let duplicates = duplicates.finding(Severity::Warning, split.name, "duplicate", |count| {
        plural(count, "utterance is there before", "utterances are there before")
    });
    let contradictions =
        contradictions.finding(Severity::Warning, split.name, "contradiction", |count| {
            plural(
                count,
                "utterance has the audio of another and not its transcript",
                "utterances have the audio of another and not its transcript",
            )
        });
    duplicates.into_iter().chain(contradictions).collect()
}

/// Of two splits: audio, speakers and transcripts.
pub(super) fn between(earlier: &Split, later: &Split) -> Vec<Finding> {
    let (before, here) = (earlier.name, later.name);
    let splits = format!("{before}, {here}");
    let (mut audio, mut speakers, mut texts) =
        (Tally::default(), Tally::default(), Tally::default());

    let mut heard: HashMap<[u8; 16], &Surveyed> = HashMap::new();
    for (fingerprint, kept) in audible(earlier) {
        heard.entry(fingerprint).or_insert(kept);
    }
    for (fingerprint, kept) in audible(later) {
        if let Some(other) = heard.get(&fingerprint) {
            audio.add(|| {
                Example::of(kept, format!("the same audio as {}", other.utterance.place()))
            });
        }
    }
    let known = utterances_by_speaker(earlier);
    for (speaker, count) in utterances_by_speaker(later) {
        if let Some(before_count) = known.get(speaker) {
            speakers.add(|| Example {
                place: String::new(),
                id: speaker.to_owned(),
                detail: format!(
                    "{} in {before}, {count} in {here}",
                    counted(*before_count, "utterance")
                ),
            });
        }
    }
    let said: HashSet<&str> = kept(earlier).map(Surveyed::text).collect();
    for kept in kept(later) {
        if !kept.text().trim().is_empty() && said.contains(kept.text()) {
            texts.add(|| Example::of(kept, format!("{:?}", kept.text())));
        }
    }
    let shared = |one, many| {
        move |count| {
            format!(
                "{} of {here} {} in {before} too",
                plural(count, one, many),
                plural(count, "is", "are")
            )
        }
    };
    [
        audio.finding(
            Severity::Warning,
            &splits,
            "shared_audio",
            shared("recording", "recordings"),
        ),
        speakers.finding(
            Severity::Warning,
            &splits,
            "shared_speakers",
            shared("speaker", "speakers"),
        ),
        texts.finding(Severity::Note, &splits, "shared_texts", shared("transcript", "transcripts")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn kept<'a>(split: &Split<'a>) -> impl Iterator<Item = &'a Surveyed> {
    split.findings.survey.kept.iter()
}

fn audible<'a>(split: &Split<'a>) -> impl Iterator<Item = ([u8; 16], &'a Surveyed)> {
    kept(split).filter_map(|kept| {
        let measured = kept.measured().filter(|measured| !measured.is_silent())?;
        Some((measured.fingerprint, kept))
    })
}

fn utterances_by_speaker<'a>(split: &Split<'a>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for speaker in kept(split).filter_map(|kept| kept.utterance.speaker()) {
        *counts.entry(speaker).or_default() += 1;
    }
    counts
}
