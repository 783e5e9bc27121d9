//! The checkpoints of a run: `checkpoints/step-000400`, and the links `last` and `best`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::checkpoint::{Checkpoint, CheckpointError, sibling};

const CHECKPOINTS: &str = "checkpoints";
const MANIFEST: &str = "manifest.json";

/// A name that always points at one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The newest checkpoint, from which a run resumes.
    Last,
    /// The one with the lowest development WER, which evaluation takes.
    Best,
}

impl Link {
    fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Best => "best",
        }
    }

    /// The link's path in a run directory.
    pub fn path(self, run: &Path) -> PathBuf {
        run.join(CHECKPOINTS).join(self.name())
    }
}

/// Writes the checkpoint of its step into the run directory and points `links` at it.
///
/// # Errors
///
/// [`CheckpointError::Write`]; links then point where they did before.
pub fn save(
    run: &Path,
    checkpoint: &Checkpoint,
    links: &[Link],
) -> Result<PathBuf, CheckpointError> {
    let name = format!("step-{:06}", checkpoint.progress.step);
    let directory = run.join(CHECKPOINTS);
    fs::create_dir_all(&directory).map_err(|source| CheckpointError::Write {
        action: "create",
        path: directory.clone(),
        source,
    })?;
    let path = directory.join(&name);
    checkpoint.write(&path)?;
    for link in links {
        point(&directory.join(link.name()), &name)?;
    }
    Ok(path)
}

/// Replaces a link in one step: a reader sees the old target or the new one.
fn point(link: &Path, target: &str) -> Result<(), CheckpointError> {
    let fresh = sibling(link, "link");
    let replace = || {
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(target, &fresh)?;
        fs::rename(&fresh, link)
    };
    replace().map_err(|source| CheckpointError::Write {
        action: "point the link",
        path: link.to_owned(),
        source,
    })
}

/// Removes the checkpoints that neither `last` nor `best` points at, and leftovers of saves
/// that were cut short. Returns how many checkpoints went.
///
/// # Errors
///
/// [`CheckpointError::Write`] if a directory cannot be listed or removed.
pub fn retain(run: &Path) -> Result<usize, CheckpointError> {
    let directory = run.join(CHECKPOINTS);
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| CheckpointError::Write { action, path, source }
    };
    let kept: Vec<PathBuf> = [Link::Last, Link::Best]
        .iter()
        .filter_map(|link| fs::read_link(directory.join(link.name())).ok())
        .collect();
    let mut removed = 0;
    for entry in fs::read_dir(&directory).map_err(failed("list", &directory))? {
        let entry = entry.map_err(failed("list", &directory))?;
        let name = PathBuf::from(entry.file_name());
        let text = name.to_string_lossy();
        let is_old = text.starts_with("step-") && !kept.contains(&name);
        if is_old || text.ends_with(".partial") || text.ends_with(".old") {
            fs::remove_dir_all(entry.path()).map_err(failed("remove", &entry.path()))?;
            removed += usize::from(is_old);
        }
    }
    Ok(removed)
}

/// The checkpoint directory that `path` means: a checkpoint itself, or the `link` of a run
/// directory (`last` where there is no `best` yet).
///
/// # Errors
///
/// [`CheckpointError::Missing`] if there is neither.
pub fn resolve(path: &Path, link: Link) -> Result<PathBuf, CheckpointError> {
    [path.to_owned(), link.path(path), Link::Last.path(path)]
        .into_iter()
        .find(|candidate| candidate.join(MANIFEST).is_file())
        .map(|found| fs::canonicalize(&found).unwrap_or(found))
        .ok_or_else(|| CheckpointError::Missing(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Progress;

    fn at(step: usize) -> Checkpoint {
        Checkpoint {
            progress: Progress { step, ..Default::default() },
            model: vec![1],
            optimizer: vec![2],
            tokens: String::new(),
            config: String::new(),
        }
    }

    fn step_of(run: &Path, link: Link) -> usize {
        Checkpoint::read(&resolve(run, link).unwrap()).unwrap().progress.step
    }

    #[test]
    fn last_and_best_follow_the_saves_and_the_rest_goes() {
        let run = tempfile::tempdir().unwrap();
        save(run.path(), &at(1), &[Link::Last]).unwrap();
        assert_eq!(step_of(run.path(), Link::Best), 1, "last stands in for best");
        save(run.path(), &at(2), &[Link::Last, Link::Best]).unwrap();
        save(run.path(), &at(3), &[Link::Last]).unwrap();
        save(run.path(), &at(4), &[Link::Last]).unwrap();
        fs::create_dir(run.path().join("checkpoints/.step-000009.partial")).unwrap();
        assert_eq!(retain(run.path()).unwrap(), 2);
        assert_eq!((step_of(run.path(), Link::Last), step_of(run.path(), Link::Best)), (4, 2));
        let left = fs::read_dir(run.path().join("checkpoints")).unwrap().count();
        assert_eq!(left, 4, "two checkpoints and two links");
    }

    #[test]
    fn a_directory_without_checkpoints_is_named() {
        let run = tempfile::tempdir().unwrap();
        let error = resolve(run.path(), Link::Last).unwrap_err().to_string();
        assert!(error.contains(&run.path().display().to_string()), "{error}");
    }
}
