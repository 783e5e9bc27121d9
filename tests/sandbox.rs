//! A directory of its own for each test, and the two programs run in it.
//!
//! A program that does not end in time is killed and fails its test. Every outcome is searched for
//! panics, whatever else a test looks at.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far beyond what any of these runs takes, even on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(240);

pub struct Sandbox {
    root: PathBuf,
    /// Removes the directory when dropped.
    _dir: Option<TempDir>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A program that is running.
pub struct Running {
    child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    since: Instant,
    command: String,
}

impl Sandbox {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { root: dir.path().to_owned(), _dir: Some(dir) }
    }

    /// A directory of Cargo's own that outlives the process (a static is never dropped); what an
    /// earlier process left in it goes.
    pub fn kept(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        if root.exists() {
            fs::remove_dir_all(&root).unwrap();
        }
        fs::create_dir_all(&root).unwrap();
        Self { root, _dir: None }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file, and the folders above it.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }

    /// Packs what `files`, a shell's pattern, matches in a folder into a tar file.
    pub fn tar(&self, folder: &str, files: &str, name: &str) {
        let tar = self.path(name);
        let command = format!("cd {folder} && tar --sort=name -cf '{}' {files}", tar.display());
        let mut shell = Command::new("sh");
        let status = shell.args(["-c", &command]).current_dir(self.root()).status().unwrap();
        assert!(status.success(), "{command}");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// `asr-train ARGS --device cpu`.
    pub fn train(&self, args: &[&str]) -> Outcome {
        self.start_train(args).wait()
    }

    pub fn start_train(&self, args: &[&str]) -> Running {
        self.start("asr-train", &[args, &["--device", "cpu"]].concat())
    }

    /// `asr-train check ARGS`.
    pub fn check(&self, args: &[&str]) -> Outcome {
        self.run("asr-train", &[&["check"], args].concat())
    }

    /// `asr-eval ARGS --device cpu`.
    pub fn eval(&self, args: &[&str]) -> Outcome {
        self.run("asr-eval", &[args, &["--device", "cpu"]].concat())
    }

    pub fn run(&self, program: &str, args: &[&str]) -> Outcome {
        self.start(program, args).wait()
    }

    pub fn start(&self, program: &str, args: &[&str]) -> Running {
        let binary = match program {
            "asr-train" => env!("CARGO_BIN_EXE_asr-train"),
            "asr-eval" => env!("CARGO_BIN_EXE_asr-eval"),
            other => panic!("{other} is no program of this project"),
        };
        let mut child = Command::new(binary)
            .args(args)
            .current_dir(self.root())
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env_remove("RUST_LOG")
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running {
            stdout: drain(child.stdout.take().unwrap()),
            stderr: drain(child.stderr.take().unwrap()),
            child,
            since: Instant::now(),
            command: format!("{program} {}", args.join(" ")),
        }
    }

    /// Nothing below `name` is a leftover, and every JSON file is whole.
    pub fn assert_nothing_half_written(&self, name: &str) {
        assert_nothing_half_written(&self.path(name));
    }
}

pub fn assert_nothing_half_written(directory: &Path) {
    for path in files_below(directory) {
        let file_name = path.file_name().unwrap().to_string_lossy().into_owned();
        let below = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
        let is_leftover = [".partial", ".tmp", ".link"].iter().any(|end| below.contains(end));
        assert!(!is_leftover, "{} was left behind", path.display());
        match path.extension().and_then(OsStr::to_str) {
            Some("json") => {
                let text = fs::read(&path).unwrap();
                assert!(
                    serde_json::from_slice::<serde_json::Value>(&text).is_ok(),
                    "{} is torn",
                    path.display()
                );
            }
            Some("jsonl") => {
                let text = fs::read_to_string(&path).unwrap();
                assert!(
                    text.is_empty() || text.ends_with('\n'),
                    "{file_name} has a torn last line: {text}"
                );
                for line in text.lines() {
                    assert!(
                        serde_json::from_str::<serde_json::Value>(line).is_ok(),
                        "{file_name}: {line:?}"
                    );
                }
            }
            _ => {}
        }
    }
}

/// All files below `directory`, links as themselves; none if there is no such directory.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

impl Running {
    /// Waits until `condition` holds; fails if the program ends before.
    pub fn wait_until(&mut self, what: &str, condition: impl Fn() -> bool) {
        while !condition() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("`{}` ended with {status} before {what}", self.command);
            }
            self.check_time();
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends `INT` or `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status()
            .unwrap();
        assert!(status.success(), "cannot send SIG{name} to `{}`", self.command);
    }

    /// Ends the program as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn wait(mut self) -> Outcome {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            self.check_time();
            thread::sleep(Duration::from_millis(5));
        };
        let outcome = Outcome {
            code: code(status, &self.command),
            stdout: self.stdout.join().unwrap(),
            stderr: self.stderr.join().unwrap(),
        };
        assert!(!outcome.stderr.contains("panicked"), "`{}` panicked: {outcome}", self.command);
        outcome
    }

    fn check_time(&mut self) {
        if self.since.elapsed() > TIME_LIMIT {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
            panic!("`{}` did not end within {} s", self.command, TIME_LIMIT.as_secs());
        }
    }
}

fn code(status: ExitStatus, command: &str) -> i32 {
    status.code().unwrap_or_else(|| panic!("`{command}` was ended by {status}"))
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Outcome {
    /// Exit code 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert_eq!(self.code, 0, "{self}");
        self
    }

    /// This exit code, and a message of the program on stderr that holds all of `words`.
    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self}");
        let message = self.message();
        for word in words {
            let is_there = message.contains(word) || unwrapped(message).contains(word);
            assert!(is_there, "the message lacks {word:?}: {self}");
        }
        // Whoever prints a cause twice has a chain in which a link repeats the next one.
        for cause in ["No such file or directory", "Not a directory", "No space left on device"] {
            let said = message.lines().map(|line| line.matches(cause).count()).max();
            assert!(said <= Some(1), "{cause:?} is said twice: {self}");
        }
        self
    }

    /// Stderr from the program's own message on.
    #[track_caller]
    pub fn message(&self) -> &str {
        let start = ["asr-train: ", "asr-eval: ", "error: "]
            .iter()
            .filter_map(|start| {
                self.stderr
                    .rfind(&format!("\n{start}"))
                    .map(|at| at + 1)
                    .or(self.stderr.starts_with(start).then_some(0))
            })
            .max();
        start.map(|at| &self.stderr[at..]).unwrap_or_else(|| panic!("no message: {self}"))
    }
}

/// The text with lines that were broken for the terminal in one piece.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "exit code {}\n--- stdout\n{}\n--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}
