//! Writes the logits of a trained model for every utterance of a manifest: `[T, C]` by id, safetensors.
//!
//! ```text
//! cargo run --release --example logits -- RUN MANIFEST OUT.safetensors
//! ```
//!
//! `scripts/test_export.py` compares them with those of the exported model in Python.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use asr::config::RunConfig;
use asr::data::{EvalLoader, FeaturesOn};
use asr::model::Pass;
use asr::policy::{Checkpoint, Link, load_weights, resolve};
use asr::prepare::evaluation_set;
use asr::progress::{Display, Screen};
use asr::recognise::upload;
use asr::tokens::Tokens;
use burn::tensor::Device;
use safetensors::tensor::{Dtype, TensorView, serialize};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, manifest, out] = &arguments[..] else {
        return Err("usage: logits RUN MANIFEST OUT.safetensors".into());
    };
    let device = Device::flex();
    let path = resolve(Path::new(run), Link::Best)?;
    let checkpoint = Checkpoint::read(&path)?;
    let mut config = RunConfig::from_saved(&path.join("config.toml"), &checkpoint.config)?;
    config.data.features_on = FeaturesOn::Host;
    let tokens = Tokens::parse(&checkpoint.tokens, &path.join("tokens.txt"))?;
    let model = config.model.init(config.features.num_mels, tokens.num_classes(), &device);
    let model = load_weights(model, checkpoint.model)?;

    let screen = Screen::new(Display::detect(true));
    let manifests = [Path::new(manifest).to_owned()];
    let set = evaluation_set("test", &manifests, &config, &tokens, &screen, &mut Vec::new())?;
    let set = Arc::new(set);
    let mut logits = Vec::new();
    for batch in EvalLoader::new(Arc::clone(&set))? {
        let (features, batch) = upload(batch?, &device, None);
        let (answer, lens) = model.forward(features, &batch.frame_lens, &mut Pass::inference());
        for (row, (utterance, len)) in batch.utterances.iter().zip(lens).enumerate() {
            let valid = answer.clone().narrow(0, row, 1).narrow(1, 0, len);
            let values = valid.into_data().iter::<f32>().flat_map(f32::to_le_bytes).collect();
            let id = set.items()[*utterance].utterance.id().to_owned();
            logits.push((id, [len, tokens.num_classes()], values));
        }
    }
    let views = logits.iter().map(|(id, shape, values): &(String, [usize; 2], Vec<u8>)| {
        TensorView::new(Dtype::F32, shape.to_vec(), values).map(|view| (id.as_str(), view))
    });
    let views: Vec<_> = views.collect::<Result<_, _>>()?;
    std::fs::write(out, serialize(views, None)?)?;
    Ok(())
}
