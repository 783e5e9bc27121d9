//! Files that appear whole or not at all: temporary sibling, sync, rename, sync of the directory.
//!
//! A crash, a full disk or a signal leaves either the old file or the new one under the name, never
//! a half. The temporary is a sibling because a rename is atomic only within one file system
//! (rename(2), POSIX.1-2017).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes temporaries of threads that write the same name at once.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// Replaces the file at `path` with `bytes`, or leaves it as it was.
///
/// # Errors
/// What the file system answered; the temporary is removed. The error does not name the path: the
/// caller knows what the file was for and says so.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic_with(path, |out| out.write_all(bytes))
}

/// Like [`write_atomic`], for contents that are produced piece by piece (weights, tables).
///
/// # Errors
/// What `produce` or the file system answered; the file at `path` is then untouched and the
/// temporary removed.
pub fn write_atomic_with<F>(path: &Path, produce: F) -> io::Result<()>
where
    F: FnOnce(&mut BufWriter<File>) -> io::Result<()>,
{
    let target = match fs::metadata(path) {
        // Of a link, what it leads to is replaced.
        Ok(there) if there.is_file() => fs::canonicalize(path)?,
        // A device or a pipe is written to: a file in its place would be in everybody's way.
        Ok(there) if !there.is_dir() => {
            let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
            produce(&mut out)?;
            return out.flush();
        }
        _ => path.to_owned(),
    };
    let path = target.as_path();
    let temporary = Temporary::beside(path)?;
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary.path)?;
    let mut out = BufWriter::new(file);
    produce(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?; // a rename must never publish unwritten bytes
    drop(file);
    temporary.publish(path)
}

/// Like [`write_atomic_with`], for a file that a person names: what is there already stays.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is a file, and as [`write_atomic_with`].
pub fn create_atomic_with<F>(path: &Path, produce: F) -> io::Result<()>
where
    F: FnOnce(&mut BufWriter<File>) -> io::Result<()>,
{
    refuse_existing(path)?;
    write_atomic_with(path, produce)
}

/// Whether a person may name `path` for a new file.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is a file.
pub fn refuse_existing(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| there.is_file()) {
        let text = "there is such a file already; remove it or give another name";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    Ok(())
}

/// As [`refuse_existing`], and whether a file can be made there at all: asked before long work, whose
/// result would else have nowhere to go.
///
/// # Errors
/// As [`refuse_existing`], and what the file system answers.
pub fn refuse_unwritable(path: &Path) -> io::Result<()> {
    refuse_existing(path)?;
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // A device or a pipe.
        Ok(_) => Ok(()),
        Err(_) => {
            let temporary = Temporary::beside(path)?;
            OpenOptions::new().write(true).create_new(true).open(&temporary.path).map(drop)
        }
    }
}

/// Makes the directory `path` with what `produce` writes into the one it is given, whole or not at
/// all, and the directories above it.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is anything but an empty directory; what `produce` or
/// the file system answered, and nothing of it is left.
pub fn create_directory_with<F>(path: &Path, produce: F) -> io::Result<()>
where
    F: FnOnce(&Path) -> io::Result<()>,
{
    let is_taken = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => fs::symlink_metadata(path).is_ok(),
    };
    if is_taken {
        let text = "it is there already; remove it or give another name";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temporary = Temporary::beside(path)?;
    fs::create_dir(&temporary.path)?;
    produce(&temporary.path)?;
    for entry in fs::read_dir(&temporary.path)? {
        File::open(entry?.path())?.sync_all()?;
    }
    sync_directory(&temporary.path.join("."))?;
    temporary.publish(path)
}

/// A name that is removed unless it was published.
struct Temporary {
    path: PathBuf,
    is_published: bool,
}

impl Temporary {
    fn beside(path: &Path) -> io::Result<Self> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(
            ".{}.{}.tmp",
            std::process::id(),
            NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed)
        ));
        Ok(Self { path: path.with_file_name(hidden), is_published: false })
    }

    fn publish(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_published = true;
        sync_directory(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_published {
            // Nothing can be done about a failure here, and the error that led here is the one to
            // report.
            let _ = fs::remove_file(&self.path).or_else(|_| fs::remove_dir_all(&self.path));
        }
    }
}

/// Makes the rename itself survive a power cut. Only Unix lets a directory be opened for this.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match File::open(parent.unwrap_or(Path::new(".")))?.sync_all() {
            // Some network and user-space file systems cannot sync a directory; the file is whole
            // all the same.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) => {}
            synced => synced?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        write_atomic(&path, b"a longer first version").unwrap();
        write_atomic(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(dir.path()), ["results.json"]);
    }

    #[test]
    fn a_failure_half_way_keeps_the_old_file_and_removes_the_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("last.safetensors");
        write_atomic(&path, b"old").unwrap();
        let failed = write_atomic_with(&path, |out| {
            out.write_all(&[0; 100_000])?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["last.safetensors"]);
    }

    #[test]
    fn a_directory_appears_whole_or_not_at_all_and_never_in_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/model");
        let failed = create_directory_with(&path, |inside| {
            fs::write(inside.join("a"), "half")?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(names(&dir.path().join("new")).is_empty());
        fs::create_dir(&path).unwrap();
        create_directory_with(&path, |inside| fs::write(inside.join("a"), "whole")).unwrap();
        assert_eq!(fs::read(path.join("a")).unwrap(), b"whole");
        for taken in [path.clone(), path.join("a")] {
            let error = create_directory_with(&taken, |_| unreachable!()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(names(&dir.path().join("new")), ["model"]);
    }

    #[test]
    fn a_name_that_cannot_be_replaced_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("inside")).unwrap();
        assert!(write_atomic(&path, b"x").is_err());
        assert_eq!(names(dir.path()), ["taken"]);
    }

    #[test]
    fn a_missing_directory_and_a_path_without_a_name_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let missing = write_atomic(&dir.path().join("no/such/file"), b"x").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(
            write_atomic(Path::new("/"), b"x").unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }

    #[test]
    fn a_name_that_cannot_be_written_is_refused_before_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("old"), "x").unwrap();
        for (name, kind) in [
            ("no/such/file", io::ErrorKind::NotFound),
            ("old/file", io::ErrorKind::NotADirectory),
            ("old", io::ErrorKind::AlreadyExists),
            ("folder", io::ErrorKind::IsADirectory),
        ] {
            assert_eq!(
                refuse_unwritable(&dir.path().join(name)).unwrap_err().kind(),
                kind,
                "{name}"
            );
        }
        refuse_unwritable(&dir.path().join("new")).unwrap();
        assert_eq!(names(dir.path()), ["folder", "old"]);
    }

    #[test]
    fn writers_of_one_name_at_once_leave_one_whole_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("last");
        std::thread::scope(|scope| {
            for byte in 0..8_u8 {
                let path = &path;
                scope.spawn(move || write_atomic(path, &vec![byte; 50_000]).unwrap());
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 50_000);
        assert!(bytes.iter().all(|b| *b == bytes[0]));
        assert_eq!(names(dir.path()), ["last"]);
    }
}
