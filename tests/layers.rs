//! The layering law: a module imports only what ranks below it, and every module has a rank.
//!
//! Read from the source text, tests and comments apart, so that an import by any spelling
//! (`use crate::x`, a path in an expression, `super::x` at the root) counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up. Modules of one rank do not know each other.
const LAYERS: &[&[&str]] = &[
    &["audio", "cores", "device", "durable", "host", "interrupt", "text", "wording"],
    &["corpus", "features", "tokens"],
    &["augment"],
    &["ctc", "data", "decode", "extract", "model", "optim", "schedule", "score"],
    &["doctor", "policy", "progress", "recognise"],
    &["config"],
    &["prepare"],
    &["eval", "train"],
    &["cli"],
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rank(module: &str) -> usize {
    let rank = LAYERS.iter().position(|layer| layer.contains(&module));
    rank.unwrap_or_else(|| panic!("module `{module}` has no rank: give it one in tests/layers.rs"))
}

/// The modules that `lib.rs` declares.
fn modules() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let declared = text.lines().filter_map(|line| {
        line.strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name.to_owned())
    });
    declared.collect()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let files = crate::sandbox::files_below(directory);
    files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The code of a file without its tests and comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod").next().unwrap();
    let text = text.split("#[cfg(test)]\npub").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The names that follow `prefix`, those in braces included.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        // `my_crate::` is another crate.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => {
                let mut depth = 1;
                let mut name = String::new();
                for c in list.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => names.extend([first_name(&std::mem::take(&mut name))]),
                        c => name.push(c),
                    }
                    if depth == 0 {
                        break;
                    }
                }
                names.insert(first_name(&name));
            }
            None => {
                names.insert(first_name(rest));
            }
        }
    }
    names.remove("");
    names
}

fn first_name(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The module that a file belongs to, and what `super::` of how many means the crate's root there.
fn module_and_depth(path: &Path) -> (String, usize) {
    let relative = path.strip_prefix(root().join("src")).unwrap().with_extension("");
    let mut parts: Vec<String> =
        relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    (parts[0].clone(), parts.len())
}

#[test]
fn imports_point_one_way() {
    let modules = modules();
    let mut violations = Vec::new();
    for path in sources(&root().join("src")) {
        let (module, depth) = module_and_depth(&path);
        if ["bin", "lib"].contains(&module.as_str()) {
            continue;
        }
        let code = code(&path);
        let mut used = names_after(&code, "crate::");
        used.extend(names_after(&code, &"super::".repeat(depth)));
        for other in used.iter().filter(|other| **other != module && modules.contains(*other)) {
            if rank(other) >= rank(&module) {
                violations.push(format!("{}: `{module}` may not know `{other}`", path.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn every_module_has_a_rank_and_every_rank_a_module() {
    let ranked: BTreeSet<String> =
        LAYERS.iter().flat_map(|layer| layer.iter().map(|name| (*name).to_owned())).collect();
    assert_eq!(modules(), ranked);
}

#[test]
fn the_programs_are_nothing_but_their_command() {
    for name in ["asr-train", "asr-eval"] {
        let code = code(&root().join(format!("src/bin/{name}.rs")));
        assert_eq!(names_after(&code, "asr::"), BTreeSet::from(["cli".to_owned()]), "{name}");
        assert!(
            code.lines().filter(|line| !line.trim().is_empty()).count() <= 10,
            "{name} has grown a body"
        );
    }
}

#[test]
fn the_kernels_know_nothing_of_burn_and_nothing_of_this_crate() {
    let sources = sources(&root().join("kernels/src"));
    assert!(sources.len() > 5, "the kernels have moved");
    for path in sources {
        let code = code(&path);
        for word in ["burn", "asr::"] {
            assert!(!code.contains(word), "{} mentions {word}", path.display());
        }
    }
}

#[test]
fn names_are_found_however_they_are_spelt() {
    let code = "use crate::data::Batch;\nuse crate::{model::{a, b}, optim, score};\nlet x = crate::text::y; my_crate::z(); asr::crate::q";
    let want = ["data", "model", "optim", "score", "text"].map(str::to_owned);
    assert_eq!(names_after(code, "crate::"), BTreeSet::from(want));
}
