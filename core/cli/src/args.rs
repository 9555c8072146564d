//! Options that several verbs share.

use crate::bytes::Form;
use crate::choices::CompressionArg;
use crate::progress::When;
use crate::unlock;
use clap::Args;
use pipkin::Builder;

/// Options of every verb.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// Write results and errors as JSON
    #[arg(long, global = true, help_heading = "Options of every verb")]
    pub(crate) json: bool,
    /// When to show a progress bar on stderr
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = "Options of every verb")]
    pub(crate) progress: When,
}

/// Which records a verb works on.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NamespaceArg {
    /// Work on this namespace instead of the default one
    #[arg(long, short, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

/// What a verb that only reads works on.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) namespace: NamespaceArg,
    /// Read beside a process that has the store open, as it has written it so far
    #[arg(long)]
    pub(crate) follow: bool,
}

/// How a store is created.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct NewStoreArgs {
    /// Size of a segment, if the store is created: a power of two from 4096 to 268435456; a store that is there keeps its own [default: 4 MiB]
    #[arg(long, value_name = "BYTES")]
    segment_size: Option<u32>,
}

impl NewStoreArgs {
    pub(crate) fn builder(self) -> Builder {
        self.segment_size.map_or_else(unlock::builder, |bytes| unlock::builder().segment_size(bytes))
    }
}

/// Whether and when the values of a namespace are compressed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CompressArgs {
    /// When values of the namespace are compressed; the store keeps that
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) compression: Option<CompressionArg>,
    /// Compress in a sealed store, too: lengths, which are rounded up, then tell something of what is in the values. Each verb needs it
    #[arg(long)]
    pub(crate) compress_sealed: bool,
}

/// How keys are given and printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FormArgs {
    /// Keys are given, and bytes are printed, in hexadecimal
    #[arg(long, conflicts_with = "base64")]
    pub(crate) hex: bool,
    /// Keys are given, and bytes are printed, in base64
    #[arg(long)]
    pub(crate) base64: bool,
}

impl FormArgs {
    pub(crate) fn form(self) -> Form {
        match self {
            Self { hex: true, .. } => Form::Hex,
            Self { base64: true, .. } => Form::Base64,
            _ => Form::Text,
        }
    }
}
