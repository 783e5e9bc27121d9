//! PyTorch's losses and gradients, committed with their provenance.

use crate::cases::Case;
use crate::laws::{self, Engine};
use asr_kernels::{Problem, reference};
use serde_json::Value;

struct Golden {
    case: Case,
    nll: Vec<f64>,
    grad: Vec<f64>,
}

fn numbers(value: &Value) -> Vec<f64> {
    let array = value.as_array().expect("an array of numbers");
    array.iter().map(|x| x.as_f64().unwrap_or(f64::INFINITY)).collect()
}

fn integers(value: &Value) -> Vec<usize> {
    numbers(value).into_iter().map(|x| x as usize).collect()
}

fn goldens() -> Vec<Golden> {
    let fixture: Value = serde_json::from_str(include_str!("../fixtures/ctc.json")).unwrap();
    assert!(fixture["torch"].is_string() && fixture["made_by"].is_string());
    let read = |case: &Value| {
        let size = |key: &str| case[key].as_u64().expect(key) as usize;
        let labels: Vec<Vec<u32>> = case["labels"]
            .as_array()
            .expect("labels")
            .iter()
            .map(|row| integers(row).into_iter().map(|label| label as u32).collect())
            .collect();
        let frame_lens = integers(&case["frame_lens"]);
        let (frames, classes, blank) = (size("frames"), size("classes"), size("blank") as u32);
        Golden {
            case: Case {
                name: case["name"].as_str().expect("name").to_owned(),
                logits: numbers(&case["logits"]).into_iter().map(|x| x as f32).collect(),
                problem: Problem::new(frames, classes, blank, frame_lens, &labels).unwrap(),
            },
            nll: numbers(&case["nll"]),
            grad: numbers(&case["grad"]),
        }
    };
    let cases: Vec<Golden> = fixture["cases"].as_array().expect("cases").iter().map(read).collect();
    assert_eq!(cases.len(), 8);
    cases
}

#[test]
fn the_reference_is_what_pytorch_computes() {
    for Golden { case, nll, grad } in goldens() {
        let (losses, gradient) = reference::batch(&case.logits, &case.problem);
        for (got, want) in losses.iter().zip(&nll) {
            assert!(got == want || (got - want).abs() < 1e-9 * want, "{}: {got} {want}", case.name);
        }
        for (got, want) in gradient.iter().zip(&grad) {
            assert!((got - want).abs() < 1e-8, "{}: {got} {want}", case.name);
        }
    }
}

/// The same cases for a fast path, through the reference that equals them.
pub fn are_met_by<E: Engine>(engine: &E) {
    for golden in goldens() {
        laws::check(engine, &golden.case);
    }
}
