//! Directories that cannot be written, disks that are full, and checkpoints that were cut short.
//! Whatever fails, what was whole before stays whole, and no half is left behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::Sandbox;

#[test]
fn an_output_directory_that_cannot_be_made_is_named_with_the_option() {
    let sandbox = Sandbox::with_tones();
    sandbox.write("file", "in the way");
    for out in ["file/run", "/proc/run"] {
        let outcome = sandbox.train(&["run.toml", "--out", out]);
        outcome.fails(2, &[out, "cannot write the run directory", "--out DIR"]);
    }
    assert_eq!(sandbox.read("file"), "in the way");
}

#[test]
fn an_output_directory_that_refuses_files_is_named_with_the_option() {
    let sandbox = Sandbox::with_tones();
    // Exists, is a directory, and takes no file even from root.
    let outcome = sandbox.train(&["run.toml", "--out", "/proc/self"]);
    outcome.fails(2, &["/proc/self", "cannot write the run directory", "--out DIR"]);
}

#[test]
fn an_evaluation_that_cannot_be_written_is_named_with_the_option() {
    let sandbox = Sandbox::with_trained_run();
    sandbox.write("file", "in the way");
    sandbox
        .eval(&["run", "--manifest", "test.jsonl", "--out", "file/report"])
        .fails(2, &["file/report/eval", "--out DIR"]);
}

/// A file system of its own, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, said aloud, for a user who may not mount anything; for root that is a failure.
    fn mount(at: &Path, kib: usize) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(at)
            .output()
            .expect("a full disk is tested with `mount`");
        let refusal = String::from_utf8_lossy(&mounted.stderr);
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if !mounted.status.success() && !is_root {
            eprintln!(
                "NOT TESTED: a full disk needs a small tmpfs, and only root may mount one: {refusal}"
            );
            return None;
        }
        assert!(mounted.status.success(), "a full disk is tested on a small tmpfs: {refusal}");
        Some(Self(at.to_owned()))
    }

    /// Leaves room for `kib` and no more.
    fn fill_up_to(&self, kib: usize) {
        let filler = self.0.join("filler");
        fs::write(&filler, "").unwrap();
        let output =
            Command::new("df").args(["--output=avail", "-k"]).arg(&self.0).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let free: usize = text.lines().last().unwrap().trim().parse().unwrap();
        fs::write(filler, vec![0; 1024 * (free - kib)]).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a failed test may have left a file open in it.
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()),
            "{} is still mounted",
            self.0.display()
        );
    }
}

#[test]
fn a_disk_too_small_for_a_checkpoint_ends_the_run_and_leaves_no_half() {
    let sandbox = Sandbox::with_tones();
    let Some(disk) = SmallDisk::mount(&sandbox.path("disk"), 48) else { return };
    let outcome = sandbox.train(&["run.toml", "--out", "disk/run"]);
    outcome.fails(1, &["disk/run/checkpoints", "No space left on device", "free space"]);
    sandbox.assert_nothing_half_written("disk/run");
    drop(disk);
}

#[test]
fn a_disk_that_fills_up_during_a_run_keeps_the_checkpoint_before() {
    let sandbox = Sandbox::with_tones();
    let Some(disk) = SmallDisk::mount(&sandbox.path("disk"), 4_096) else { return };
    sandbox.train(&["run.toml", "--out", "disk/run"]).succeeds();
    let before = fs::read_link(sandbox.path("disk/run/checkpoints/last")).unwrap();
    disk.fill_up_to(12);
    let more = ["run.toml", "--out", "disk/run", "--set", "train.epochs=4"];
    sandbox.train(&more).fails(1, &["No space left on device"]);
    sandbox.assert_nothing_half_written("disk/run");
    assert_eq!(fs::read_link(sandbox.path("disk/run/checkpoints/last")).unwrap(), before);
    fs::remove_file(sandbox.path("disk/filler")).unwrap();
    sandbox.eval(&["disk/run", "--manifest", "dev.jsonl"]).succeeds();
    sandbox.train(&more).succeeds();
}

#[test]
fn metrics_on_a_full_disk_end_the_run_without_a_torn_line() {
    let sandbox = Sandbox::with_tones();
    let Some(disk) = SmallDisk::mount(&sandbox.path("disk"), 4_096) else { return };
    sandbox.train(&["run.toml", "--out", "disk/run"]).succeeds();
    let longer = ["--set", "train.epochs=60", "--set", "train.validate_every=60"];
    let more = [&["run.toml", "--out", "disk/run"], &longer[..]].concat();
    disk.fill_up_to(0);
    sandbox.train(&more).fails(1, &["disk/run/config.toml", "No space left on device"]);
    sandbox.assert_nothing_half_written("disk/run");
    // Room for a config and for some lines, but not for those of every step.
    disk.fill_up_to(8);
    let words = ["metrics.jsonl: cannot write the metrics of step", "No space left on device"];
    sandbox.train(&more).fails(1, &words);
    sandbox.assert_nothing_half_written("disk/run");
    drop(disk);
}

#[test]
fn a_report_on_a_full_disk_leaves_no_results() {
    let sandbox = Sandbox::with_trained_run();
    let Some(disk) = SmallDisk::mount(&sandbox.path("disk"), 64) else { return };
    disk.fill_up_to(4);
    let outcome = sandbox.eval(&["run", "--manifest", "test.jsonl", "--out", "disk"]);
    outcome.fails(1, &["disk/eval/test", "No space left on device"]);
    sandbox.assert_nothing_half_written("disk");
    assert!(!sandbox.path("disk/eval/test/results.json").exists(), "results vouch for the rest");
}

#[test]
fn a_truncated_checkpoint_is_named_and_not_used() {
    for file in ["model.safetensors", "optimizer.bpk", "tokens.txt", "config.toml"] {
        let sandbox = Sandbox::with_trained_run();
        for link in ["last", "best"] {
            let path = sandbox.path(&format!("run/checkpoints/{link}/{file}"));
            let whole = fs::read(&path).unwrap();
            // Both links may lead to one checkpoint.
            fs::write(&path, &whole[..whole.len() * 2 / 3]).unwrap();
        }
        let words = [file, "is damaged", "bytes instead of", "use another checkpoint"];
        sandbox.eval(&["run", "--manifest", "test.jsonl"]).fails(1, &words);
        sandbox.train(&["run.toml", "--out", "run", "--set", "train.epochs=30"]).fails(1, &words);
    }
}

#[test]
fn a_checkpoint_without_its_manifest_or_with_half_of_it_is_refused() {
    let sandbox = Sandbox::with_trained_run();
    let manifest = sandbox.path("run/checkpoints/best/manifest.json");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    let words = ["manifest.json is not a checkpoint manifest", "use another checkpoint"];
    sandbox.eval(&["run", "--manifest", "test.jsonl"]).fails(1, &words);
}
