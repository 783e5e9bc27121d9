//! Utterances that are there twice, and what two splits share. The same audio is the same samples, in
//! whatever file; silence, which is all alike, is told of elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{EXAMPLES, Example, Finding, Severity, Split};
use crate::data::Surveyed;

/// Of one split: the same audio with the same transcript, and with another.
pub(super) fn within(split: &Split) -> Vec<Finding> {
    let mut first: HashMap<[u8; 16], &Surveyed> = HashMap::new();
    let (mut duplicates, mut contradictions) = (Vec::new(), Vec::new());
    for (fingerprint, kept) in audible(split) {
        let Some(before) = first.get(&fingerprint) else {
            first.insert(fingerprint, kept);
            continue;
        };
        let place = before.utterance.place();
        if before.text() == kept.text() {
            duplicates.push(Example::of(kept, format!("the same audio and text as {place}")));
        } else {
            let detail = format!("{:?}, but {:?} in {place}", kept.text(), before.text());
            contradictions.push(Example::of(kept, detail));
        }
    }
    let finding = |kind, text, all| finding(Severity::Warning, split.name, kind, text, all);
    [
        finding("duplicate", "utterances are there before", duplicates),
        finding(
            "contradiction",
            "utterances have the audio of another and not its transcript",
            contradictions,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Of two splits: audio, speakers and transcripts.
pub(super) fn between(earlier: &Split, later: &Split) -> Vec<Finding> {
    let (before, here) = (earlier.name, later.name);
    let splits = format!("{before}, {here}");
    let heard: HashMap<[u8; 16], &Surveyed> = audible(earlier).collect();
    let audio = audible(later).filter_map(|(fingerprint, kept)| {
        let place = heard.get(&fingerprint)?.utterance.place();
        Some(Example::of(kept, format!("the same audio as {place}")))
    });
    let texts: HashSet<&str> = kept(earlier).map(|kept| kept.text()).collect();
    let shared =
        kept(later).filter(|kept| !kept.text().trim().is_empty() && texts.contains(kept.text()));
    let shared = shared.map(|kept| Example::of(kept, format!("{:?}", kept.text())));
    let (known, spoken) = (speakers(earlier), speakers(later));
    let speakers = spoken.iter().filter_map(|(speaker, count)| {
        let detail = format!("{} utterances in {before}, {count} in {here}", known.get(speaker)?);
        Some(Example { place: String::new(), id: (*speaker).to_owned(), detail })
    });
    [
        finding(
            Severity::Warning,
            &splits,
            "shared_audio",
            &format!("recordings of {here} are in {before} too"),
            audio.collect(),
        ),
        finding(
            Severity::Warning,
            &splits,
            "shared_speakers",
            &format!("speakers of {here} are in {before} too"),
            speakers.collect(),
        ),
        finding(
            Severity::Note,
            &splits,
            "shared_texts",
            &format!("transcripts of {here} are in {before} too"),
            shared.collect(),
        ),
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

fn speakers<'a>(split: &Split<'a>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for speaker in kept(split).filter_map(|kept| kept.utterance.speaker()) {
        *counts.entry(speaker).or_default() += 1;
    }
    counts
}

fn finding(
    severity: Severity,
    split: &str,
    kind: &str,
    text: &str,
    all: Vec<Example>,
) -> Option<Finding> {
    let count = all.len();
    let examples = all.into_iter().take(EXAMPLES).collect();
    (count > 0).then(|| Finding {
        severity,
        split: split.to_owned(),
        kind: kind.to_owned(),
        text: text.to_owned(),
        count,
        examples,
    })
}
