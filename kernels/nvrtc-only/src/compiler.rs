//! The compiler in name: the types that `cubecl-cuda` matches on, and the refusal of every kernel.

use crate::nvptx::ptx_version::PtxVersion;
use core::convert::Infallible;
use core::fmt;
use cubecl_core::environment::backtrace::BackTrace;
use cubecl_core::ir::attributes::BufferIOAttr;
use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_core::{CompilationError, Compiler};

/// What a compiler would emit code for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA's PTX, the only target of `cubecl-cuda`.
    #[default]
    Nvptx,
}

/// Refuses every kernel.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// The target the caller has in mind.
    pub target: LlvmTarget,
}

/// The options `cubecl-cuda` fills in; nothing reads them.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// An AMD architecture: never one for CUDA.
    pub arch: Option<Infallible>,
    /// The NVIDIA architecture of the device.
    pub sm_arch: Option<SmArch>,
    /// The PTX version to emit.
    pub ptx_version: Option<PtxVersion>,
    /// Whether scalars travel in the kernel's parameter block.
    pub grid_constants: bool,
}

/// Compiled PTX. Without a compiler there never is a value of this type, which `never` lets the type checker know.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// PTX text, with its final NUL.
    pub ptx: Vec<core::ffi::c_char>,
    /// Name of the kernel in the PTX.
    pub entrypoint: String,
    /// Intermediate representation, for logs.
    pub ir: String,
    /// Dynamic shared memory of a launch, in bytes.
    pub shared_memory_size: usize,
    /// What the kernel does with each buffer, in binding order.
    pub io: Vec<BufferIOAttr>,
    never: Infallible,
}

/// What a successful compilation would return. `cubecl-cuda` matches it with a wildcard, hence non-exhaustive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlironArtifact {
    /// PTX.
    NvptxCode(NvptxModule),
}

impl fmt::Display for PlironArtifact {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NvptxCode(module) = self;
        match module.never {}
    }
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    fn compile(
        &mut self,
        _: KernelDefinition,
        _: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this program was built without LLVM, and cubecl-cuda without its feature `cpp`: no CUDA kernel \
                     can be compiled. Build it from its own workspace with `--features cuda`, which turns `cpp` \
                     (NVRTC) on."
                .to_string(),
            backtrace: BackTrace::capture(),
        })
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}
