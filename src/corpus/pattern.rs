//! Names that stand for many files, as WebDataset and NeMo write them: `audio_{0..127}.tar`,
//! `shard-{000000..000099}.tar`, `{a,b}.tar`, and NeMo's spelling that needs no quotes in a shell,
//! `audio__OP_0..127_CL_.tar`. A file that is really called so counts as itself.
//! <https://docs.nvidia.com/nemo-framework/user-guide/latest/nemotoolkit/asr/datasets.html>

use std::path::{Path, PathBuf};

/// More files than any data set has shards.
const MAX_FILES: usize = 1 << 20;

/// Whether a name stands for others.
pub(super) fn is_pattern(path: &Path) -> bool {
    let is_braced = |text: &str| text.contains('{') || text.contains("_OP_");
    path.to_str().is_some_and(is_braced) && !path.exists()
}

/// The files that a name stands for, in order; `None` for a name without a pattern.
///
/// # Errors
/// What is wrong with the pattern.
pub(super) fn expand(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    if !is_pattern(path) {
        return Ok(None);
    }
    let braced = path.to_string_lossy().replace("_OP_", "{").replace("_CL_", "}");
    let mut names = vec![String::new()];
    let mut rest = braced.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        let (inner, behind) = behind
            .split_once('}')
            .ok_or_else(|| format!("{braced:?} opens a brace and does not close it"))?;
        let choices = choices(inner)?;
        if names.len() * choices.len() > MAX_FILES {
            return Err(format!("{braced:?} stands for more than {MAX_FILES} files"));
        }
        names = names
            .iter()
            .flat_map(|name| choices.iter().map(move |choice| format!("{name}{before}{choice}")))
            .collect();
        rest = behind;
    }
    Ok(Some(names.into_iter().map(|name| PathBuf::from(name + rest)).collect()))
}

/// `0..127`, with as many digits as the first number is written with; or `a,b,c`.
fn choices(inner: &str) -> Result<Vec<String>, String> {
    let Some((first, last)) = inner.split_once("..") else {
        return Ok(inner.split(',').map(str::to_owned).collect());
    };
    let number = |text: &str| text.parse::<usize>().ok();
    match (number(first), number(last)) {
        (Some(from), Some(to)) if from <= to && to - from < MAX_FILES => {
            let width = if first.starts_with('0') { first.len() } else { 0 };
            Ok((from..=to).map(|number| format!("{number:0width$}")).collect())
        }
        _ => Err(format!(
            "{{{inner}}} is no range of numbers that rises, such as {{0..127}}, of at most {MAX_FILES}"
        )),
    }
}

/// The folder that all files of a pattern are below: the part of the name in front of the first brace.
pub(super) fn fixed_folder(pattern: &Path) -> PathBuf {
    let text = pattern.to_string_lossy().replace("_OP_", "{");
    let fixed = text.split('{').next().unwrap_or_default();
    fixed.rfind('/').map_or(PathBuf::new(), |at| PathBuf::from(&fixed[..at.max(1)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str) -> Vec<String> {
        let paths = expand(Path::new(pattern)).unwrap().unwrap();
        paths.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_pattern_stands_for_its_files_in_order() {
        assert_eq!(names("d/a_{9..11}.tar"), ["d/a_9.tar", "d/a_10.tar", "d/a_11.tar"]);
        assert_eq!(names("a_{08..10}.tar"), ["a_08.tar", "a_09.tar", "a_10.tar"]);
        assert_eq!(names("a__OP_0..1_CL_.tar"), ["a_0.tar", "a_1.tar"], "as NeMo writes it");
        assert_eq!(
            names("b{1..2}/{x,y}.tar"),
            ["b1/x.tar", "b1/y.tar", "b2/x.tar", "b2/y.tar"],
            "every folder with every file"
        );
        assert_eq!(names("a_{3..3}"), ["a_3"]);
        assert_eq!(expand(Path::new("plain.tar")), Ok(None));
        assert_eq!(fixed_folder(Path::new("/x/b{1..2}/{x,y}.tar")), Path::new("/x"));
        assert_eq!(fixed_folder(Path::new("x/a__OP_0..1_CL_.tar")), Path::new("x"));
        assert_eq!(fixed_folder(Path::new("{0..1}.tar")), Path::new(""));
        assert_eq!(fixed_folder(Path::new("/{0..1}.tar")), Path::new("/"));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (pattern, words) in [
            ("a_{0..", "does not close it"),
            ("a_{5..2}.tar", "no range"),
            ("a_{x..y}.tar", "such as {0..127}"),
            ("a_{0..99999999}.tar", "at most 1048576"),
            ("{0..99999}{0..99999}", "more than 1048576 files"),
        ] {
            let error = expand(Path::new(pattern)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
