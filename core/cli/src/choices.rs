//! What a namespace says in the file about its records, whoever opens it.

use clap::ValueEnum;
use pipkin::{Compression, Namespace};
use serde::Serialize;
use std::time::Duration;

/// When the values of a namespace are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CompressionArg {
    /// Never; what is compressed stays so
    Off,
    /// By `compact`
    OnCompaction,
    /// By writes, too
    OnWrite,
}

impl CompressionArg {
    /// What a namespace says; nothing where it does not compress.
    pub(crate) const fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::OnCompaction => Some(Self::OnCompaction),
            Compression::OnWrite => Some(Self::OnWrite),
            _ => None,
        }
    }
}

impl From<CompressionArg> for Compression {
    fn from(arg: CompressionArg) -> Self {
        match arg {
            CompressionArg::Off => Self::Off,
            CompressionArg::OnCompaction => Self::OnCompaction,
            CompressionArg::OnWrite => Self::OnWrite,
        }
    }
}

/// The lasting choices of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Choices {
    /// How long its records live by default, in milliseconds; without it for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_ttl_ms: Option<u64>,
    /// Whether its keys are kept in order; without it as the program says that opens the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ordered: Option<bool>,
    /// When its values are compressed; without it never, or as the program says that opens the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compression: Option<CompressionArg>,
}

impl Choices {
    pub(crate) fn of(space: &Namespace) -> Self {
        let ttl = space.default_ttl().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        Self { default_ttl_ms: ttl, ordered: space.ordered(), compression: CompressionArg::of(space.compression()) }
    }

    /// Nothing is said.
    pub(crate) fn are_none(self) -> bool {
        self == Self::default()
    }

    /// Makes those of the namespace that are said; leaves the others.
    pub(crate) fn make(self, space: &Namespace) -> pipkin::Result<()> {
        if let Some(ms) = self.default_ttl_ms {
            space.set_default_ttl(Some(Duration::from_millis(ms)))?;
        }
        if self.ordered.is_some() {
            space.set_ordered(self.ordered)?;
        }
        if let Some(compression) = self.compression {
            space.set_compression(Some(compression.into()))?;
        }
        Ok(())
    }
}

/// A namespace in an export of all, and in the answer of `namespaces set`.
#[derive(Serialize)]
pub(crate) struct NamespaceJson<'a> {
    pub(crate) namespace: &'a str,
    #[serde(flatten)]
    pub(crate) choices: Choices,
}
