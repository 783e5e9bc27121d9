//! Where relative recordings start. Manifests of this project say: at the manifest. Kaldi and Lhotse
//! write paths relative to where they were run, most often a folder or two above their output; so for
//! theirs the first of the manifest's folder and the folders above it counts under which one of the first
//! relative recordings is there. If there is none, it is the manifest's folder.

use std::path::Path;

use super::build::Builder;

/// Folders looked at above the manifest.
const MAX_ABOVE: usize = 4;

/// Recordings looked for: the first may be missing.
pub(super) const LOOKED_FOR: usize = 10;

pub(super) fn set_base(builder: &mut Builder, first_relative: &[impl AsRef<Path>]) {
    let start = if builder.base().as_os_str().is_empty() { Path::new(".") } else { builder.base() };
    let Ok(start) = std::path::absolute(start) else { return };
    let is_there = |folder: &Path| {
        first_relative.iter().take(LOOKED_FOR).any(|path| folder.join(path).is_file())
    };
    let mut above = start.ancestors().take(MAX_ABOVE + 1);
    if let Some(folder) = above.find(|folder| is_there(folder))
        && folder != start
    {
        builder.set_base(folder.to_owned());
    }
}
