//! Named tensors of safetensors files, all as f32: one file, or the shards that an index lists.
//!
//! bf16, f16 and f64 become f32; other kinds (integers, quantised weights) are refused by name, as is an
//! index that leads out of its directory. Format: huggingface/safetensors, README.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde::Deserialize;
use thiserror::Error;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A tensor in memory, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredTensor {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values.
    pub values: Vec<f32>,
}

/// Tensors by name.
pub type Tensors = BTreeMap<String, StoredTensor>;

/// Weights that cannot be read.
#[derive(Debug, Error)]
pub enum TensorsError {
    /// A file cannot be read.
    #[error("cannot read the weights {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There are no weights in a directory.
    #[error(
        "{} holds no weights: expected {WHOLE} or {INDEX}; save other formats as safetensors first (`save_pretrained` does)",
        .0.display()
    )]
    Missing(PathBuf),
    /// A file is not what its name says.
    #[error("{} is damaged or not a safetensors file ({reason}); fetch or save it again", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The index of the shards is wrong.
    #[error("{}: {reason}; fetch the index and its shards again", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor is of a kind that holds no weights.
    #[error("{}: tensor {name} is stored as {dtype}; only F32, F16, BF16 and F64 can be read", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The kind.
        dtype: String,
    },
}

/// The tensors of a directory for which `is_wanted` holds, and the names of the others.
///
/// # Errors
///
/// [`TensorsError`] naming the file, and the tensor where there is one.
pub fn read_directory(
    directory: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<(Tensors, Vec<String>), TensorsError> {
    let (whole, index) = (directory.join(WHOLE), directory.join(INDEX));
    if whole.is_file() {
        read_file(&whole, is_wanted)
    } else if index.is_file() {
        read_shards(&index, is_wanted)
    } else {
        Err(TensorsError::Missing(directory.to_owned()))
    }
}

/// As [`read_directory`], of one file.
///
/// # Errors
///
/// [`TensorsError`] naming the file, and the tensor where there is one.
pub fn read_file(
    path: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<(Tensors, Vec<String>), TensorsError> {
    let bytes =
        fs::read(path).map_err(|source| TensorsError::Read { path: path.to_owned(), source })?;
    parse(path, &bytes, is_wanted)
}

/// As [`read_file`], of its contents; `path` is for messages.
///
/// # Errors
///
/// [`TensorsError`] naming the file, and the tensor where there is one.
pub fn parse(
    path: &Path,
    bytes: &[u8],
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<(Tensors, Vec<String>), TensorsError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| TensorsError::Format {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let (mut tensors, mut others) = (Tensors::new(), Vec::new());
    for (name, view) in file.iter() {
        if !is_wanted(name) {
            others.push(name.to_owned());
            continue;
        }
        let values = to_f32(&view).ok_or_else(|| TensorsError::Kind {
            path: path.to_owned(),
            name: name.to_owned(),
            dtype: format!("{:?}", view.dtype()),
        })?;
        tensors.insert(name.to_owned(), StoredTensor { shape: view.shape().to_vec(), values });
    }
    others.sort();
    Ok((tensors, others))
}

fn to_f32(view: &TensorView<'_>) -> Option<Vec<f32>> {
    /// The values of little-endian bytes, `N` each.
    fn of<const N: usize>(bytes: &[u8], read: fn([u8; N]) -> f32) -> Vec<f32> {
        let (values, _) = bytes.as_chunks::<N>();
        values.iter().map(|value| read(*value)).collect()
    }
    let bytes = view.data();
    Some(match view.dtype() {
        Dtype::F32 => of(bytes, f32::from_le_bytes),
        Dtype::F16 => of(bytes, |value| f16::from_le_bytes(value).to_f32()),
        Dtype::BF16 => of(bytes, |value| bf16::from_le_bytes(value).to_f32()),
        Dtype::F64 => of(bytes, |value| f64::from_le_bytes(value) as f32),
        _ => return None,
    })
}

/// The part of an index that says where each tensor is.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn read_shards(
    path: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<(Tensors, Vec<String>), TensorsError> {
    let wrong = |reason: String| TensorsError::Index { path: path.to_owned(), reason };
    let text =
        fs::read(path).map_err(|source| TensorsError::Read { path: path.to_owned(), source })?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let shards: BTreeSet<&str> = index.weight_map.values().map(String::as_str).collect();
    let (mut tensors, mut others) = (Tensors::new(), Vec::new());
    for shard in shards {
        if Path::new(shard).file_name().is_none_or(|name| name != shard) {
            return Err(wrong(format!("the shard {shard:?} is no plain file name")));
        }
        let (found, left) = read_file(&path.with_file_name(shard), is_wanted)?;
        for name in found.keys().chain(&left) {
            if index.weight_map.get(name).is_none_or(|listed| listed != shard) {
                return Err(wrong(format!("{shard} holds {name}, which is not listed there")));
            }
        }
        tensors.extend(found);
        others.extend(left);
    }
    let is_there = |name: &&String| tensors.contains_key(*name) || others.contains(name);
    if let Some((name, shard)) = index.weight_map.iter().find(|(name, _)| !is_there(name)) {
        return Err(wrong(format!("{name} is listed in {shard}, which does not hold it")));
    }
    others.sort();
    Ok((tensors, others))
}

/// One safetensors file of `tensors` and of the integers `counts`; equal tensors are equal bytes.
///
/// # Errors
///
/// The reason, if the tensors are too large for the format.
pub fn to_bytes(tensors: &Tensors, counts: &BTreeMap<String, i64>) -> Result<Vec<u8>, String> {
    let floats = tensors.iter().map(|(name, tensor)| {
        let bytes: Vec<u8> = tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (name, Dtype::F32, tensor.shape.clone(), bytes)
    });
    let integers = counts
        .iter()
        .map(|(name, count)| (name, Dtype::I64, Vec::new(), count.to_le_bytes().to_vec()));
    let stored: Vec<_> = floats.chain(integers).collect();
    let views = stored.iter().map(|(name, dtype, shape, bytes)| {
        let view = TensorView::new(*dtype, shape.clone(), bytes);
        (name.as_str(), view.expect("as many bytes as the shape says"))
    });
    // transformers refuses a file that does not say what wrote its tensors.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    serialize(views, Some(metadata)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: &str) -> bool {
        true
    }

    fn tensor(shape: &[usize], values: &[f32]) -> StoredTensor {
        StoredTensor { shape: shape.to_vec(), values: values.to_vec() }
    }

    #[test]
    fn what_is_written_is_read_and_counts_can_be_left() {
        let tensors = Tensors::from([
            ("a".to_owned(), tensor(&[2, 1], &[1.5, f32::MIN_POSITIVE])),
            ("b".to_owned(), tensor(&[], &[-0.0])),
            ("empty".to_owned(), tensor(&[0, 3], &[])),
        ]);
        let counts = BTreeMap::from([("n".to_owned(), 7)]);
        let bytes = to_bytes(&tensors, &counts).unwrap();
        assert_eq!(bytes, to_bytes(&tensors, &counts).unwrap());
        let (read, others) = parse("x".as_ref(), &bytes, &|name| name != "n").unwrap();
        assert_eq!((read, others), (tensors, vec!["n".to_owned()]));
        let error = parse("x".as_ref(), &bytes, &all).unwrap_err().to_string();
        assert!(error.contains("tensor n is stored as I64"), "{error}");
    }

    #[test]
    fn half_and_double_precision_become_single() {
        let exact = [1.0_f32, -2.5, 65_280.0, 0.0];
        type Encode = fn(f32) -> Vec<u8>;
        let cases: [(Dtype, Encode); 3] = [
            (Dtype::F16, |x| f16::from_f32(x).to_le_bytes().to_vec()),
            (Dtype::BF16, |x| bf16::from_f32(x).to_le_bytes().to_vec()),
            (Dtype::F64, |x| f64::from(x).to_le_bytes().to_vec()),
        ];
        for (dtype, encode) in cases {
            let data: Vec<u8> = exact.iter().flat_map(|x| encode(*x)).collect();
            let view = TensorView::new(dtype, vec![4], &data).unwrap();
            let bytes = serialize([("x", view)], None).unwrap();
            let (read, _) = parse("x".as_ref(), &bytes, &all).unwrap();
            assert_eq!(read["x"].values, exact, "{dtype:?}");
        }
    }

    #[test]
    fn shards_are_joined_and_a_wrong_index_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, tensors: &Tensors| {
            fs::write(dir.path().join(name), to_bytes(tensors, &BTreeMap::new()).unwrap()).unwrap();
        };
        let a = Tensors::from([("a".to_owned(), tensor(&[1], &[1.0]))]);
        let b = Tensors::from([("b".to_owned(), tensor(&[1], &[2.0]))]);
        write("one.safetensors", &a);
        write("two.safetensors", &b);
        let index = |text: &str| {
            fs::write(dir.path().join(INDEX), text).unwrap();
            read_directory(dir.path(), &all).map_err(|error| error.to_string())
        };
        let (read, _) =
            index(r#"{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#).unwrap();
        assert_eq!(read, a.into_iter().chain(b).collect());
        for (text, words) in [
            (r#"{"weight_map": {"a": "../one.safetensors"}}"#, "no plain file name"),
            (r#"{"weight_map": {"b": "one.safetensors"}}"#, "holds a, which is not listed"),
            (r#"{"weight_map": {"a": "one.safetensors", "c": "one.safetensors"}}"#, "c is listed"),
            (r#"{"weight_map": {"a": "three.safetensors"}}"#, "three.safetensors"),
            ("{}", "weight_map"),
        ] {
            let error = index(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        fs::remove_file(dir.path().join(INDEX)).unwrap();
        let error = read_directory(dir.path(), &all).unwrap_err().to_string();
        assert!(error.contains("save_pretrained"), "{error}");
        fs::write(dir.path().join(WHOLE), [1; 40]).unwrap();
        assert!(matches!(read_directory(dir.path(), &all), Err(TensorsError::Format { .. })));
    }
}
