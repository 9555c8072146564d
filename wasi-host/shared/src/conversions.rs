//! Converts between the types of the engine and those of the interfaces.

/// Implements the conversions between the engine's types and the ones generated from the interfaces `types` and `admin`. It is a macro
/// because the component and the provider each have generated types, of the same shape.
#[macro_export]
macro_rules! impl_conversions {
    (types: $types:path, admin: $admin:path) => {
        const _: () = {
            use pipkin::limits::{KEY_LEN_MAX, NAMESPACE_NAME_LEN_MAX, VALUE_LEN_MAX};
            use pipkin::{Error, StorageErrorKind};
            use $admin as admin;
            use $types as types;

            fn length(given: usize, limit: usize) -> types::Length {
                types::Length { given: given as u64, limit: limit as u64 }
            }

            impl From<&Error> for types::Reason {
                fn from(error: &Error) -> Self {
                    match error {
                        Error::Locked { .. } => Self::Locked,
                        Error::NotFound { .. } => Self::NotFound,
                        Error::IsDirectory { .. } | Error::NotAStore { .. } => Self::NotAStore,
                        Error::NewerVersion { found, .. } => Self::NewerVersion(*found),
                        Error::ReadOnly => Self::ReadOnly,
                        Error::NoSpace | Error::StrandedInTheWay { .. } => Self::NoSpace,
                        Error::KeyTooLong { len } => Self::KeyTooLong(length(*len, KEY_LEN_MAX)),
                        Error::ValueTooLong { len } => Self::ValueTooLong(length(*len, VALUE_LEN_MAX)),
                        Error::NamespaceName { len } => Self::NamespaceName(length(*len, NAMESPACE_NAME_LEN_MAX)),
                        Error::NamespaceDropped => Self::NamespaceDropped,
                        Error::SnapshotTooOld => Self::SnapshotTooOld,
                        Error::Conflict(conflict) => Self::Conflict((*conflict).into()),
                        Error::AppendRefused { failed } => Self::AppendRefused(failed.iter().map(Into::into).collect()),
                        Error::CursorTaken => Self::CursorTaken,
                        Error::Nested => Self::Nested,
                        Error::UnknownPosition => Self::UnknownPosition,
                        Error::Compacted { oldest } => Self::Compacted((*oldest).into()),
                        Error::NoClock => Self::NoClock,
                        Error::Corrupt { offset, .. } => Self::Corrupt(*offset),
                        error if $crate::is_locked_up(error) => Self::AccessDenied,
                        error if $crate::forged_at(error).is_some() => {
                            Self::Corrupt($crate::forged_at(error).unwrap_or_default())
                        }
                        Error::Unsupported { offset, .. } => Self::Unsupported(*offset),
                        Error::Fenced => Self::Fenced,
                        Error::Poisoned(_) => Self::Poisoned,
                        Error::Closed => Self::Closed,
                        Error::Overtaken => Self::Overtaken,
                        Error::Diverged => Self::Diverged,
                        Error::InvalidArgument(_) | Error::SystemNamespace => Self::InvalidArgument,
                        Error::Storage(failed) if failed.kind == StorageErrorKind::PermissionDenied => Self::AccessDenied,
                        _ => Self::Io,
                    }
                }
            }

            impl From<Error> for types::Error {
                fn from(error: Error) -> Self {
                    Self { reason: (&error).into(), message: $crate::words(&error) }
                }
            }

            impl From<pipkin::Conflict> for types::Conflict {
                fn from(conflict: pipkin::Conflict) -> Self {
                    match conflict {
                        pipkin::Conflict::Key => Self::Key,
                        pipkin::Conflict::Range => Self::Range,
                        pipkin::Conflict::Namespace => Self::Namespace,
                        pipkin::Conflict::Expired => Self::Expired,
                        pipkin::Conflict::SnapshotEnded => Self::SnapshotEnded,
                        _ => Self::TooManyWrites,
                    }
                }
            }

            impl From<pipkin::Damage> for types::Location {
                fn from(damage: pipkin::Damage) -> Self {
                    Self { offset: damage.offset, what: damage.what.into() }
                }
            }

            impl From<pipkin::Durability> for types::Durability {
                fn from(durability: pipkin::Durability) -> Self {
                    match durability {
                        pipkin::Durability::Device => Self::Synced,
                        pipkin::Durability::Os => Self::Written,
                        _ => Self::Buffered,
                    }
                }
            }

            impl From<pipkin::Version> for types::Version {
                fn from(version: pipkin::Version) -> Self {
                    let (position, salt) = version.to_parts();
                    Self { position, salt }
                }
            }

            impl From<types::Version> for pipkin::Version {
                fn from(version: types::Version) -> Self {
                    Self::from_parts((version.position, version.salt))
                }
            }

            impl From<types::Compression> for pipkin::Compression {
                fn from(compression: types::Compression) -> Self {
                    match compression {
                        types::Compression::Off => Self::Off,
                        types::Compression::OnCompaction => Self::OnCompaction,
                        types::Compression::OnWrite => Self::OnWrite,
                    }
                }
            }

            impl From<pipkin::Compression> for types::Compression {
                fn from(compression: pipkin::Compression) -> Self {
                    match compression {
                        pipkin::Compression::OnCompaction => Self::OnCompaction,
                        pipkin::Compression::OnWrite => Self::OnWrite,
                        _ => Self::Off,
                    }
                }
            }

            impl From<types::Ttl> for pipkin::Ttl {
                fn from(ttl: types::Ttl) -> Self {
                    match ttl {
                        types::Ttl::Never => Self::Never,
                        types::Ttl::After(ms) => Self::After(core::time::Duration::from_millis(ms)),
                        types::Ttl::At(time) => Self::At(time),
                    }
                }
            }

            impl From<types::KeyRange> for $crate::KeyRange {
                fn from(range: types::KeyRange) -> Self {
                    let bound = |bound| match bound {
                        types::Bound::Unbounded => core::ops::Bound::Unbounded,
                        types::Bound::Included(key) => core::ops::Bound::Included(key),
                        types::Bound::Excluded(key) => core::ops::Bound::Excluded(key),
                    };
                    Self { start: bound(range.start), end: bound(range.end), reverse: range.reverse }
                }
            }

            impl From<pipkin::Position> for types::Position {
                fn from(position: pipkin::Position) -> Self {
                    let both = u128::from_le_bytes(position.to_bytes());
                    Self { place: both as u64, salt: (both >> 64) as u64 }
                }
            }

            impl From<types::Position> for pipkin::Position {
                fn from(position: types::Position) -> Self {
                    Self::from_bytes((u128::from(position.salt) << 64 | u128::from(position.place)).to_le_bytes())
                }
            }

            impl From<pipkin::PositionState> for types::PositionState {
                fn from(state: pipkin::PositionState) -> Self {
                    match state {
                        pipkin::PositionState::Durable => Self::Durable,
                        pipkin::PositionState::Appended => Self::Appended,
                        pipkin::PositionState::Compacted => Self::Compacted,
                        _ => Self::Unknown,
                    }
                }
            }

            impl From<types::ChangesOptions> for $crate::Asked {
                fn from(options: types::ChangesOptions) -> Self {
                    let types::ChangesOptions { start, namespace, prefix, retain_bytes: retain, appended, coalesced } = options;
                    let after = match start {
                        types::Start::Now => None,
                        types::Start::Beginning => Some(pipkin::Position::START),
                        types::Start::After(position) => Some(position.into()),
                    };
                    Self { after, namespace, prefix, retain, appended, coalesced }
                }
            }

            impl From<pipkin::Change> for types::Change {
                fn from(change: pipkin::Change) -> Self {
                    let named = |name: &str| if name.is_empty() { None } else { Some(name.into()) };
                    match change {
                        pipkin::Change::Put { namespace, key, value, expires_at } => {
                            Self::Put(types::Stored { namespace: named(&namespace), key, value, expires_at })
                        }
                        pipkin::Change::Clear { namespace } => Self::Clear(named(&namespace)),
                        pipkin::Change::Drop { namespace } => Self::Drop((*namespace).into()),
                        other => Self::Delete(types::Removed {
                            namespace: named(other.namespace()),
                            key: other.key().unwrap_or_default().into(),
                        }),
                    }
                }
            }

            impl From<$crate::Page> for types::ChangesPage {
                fn from($crate::Page { commits, position, is_at_end }: $crate::Page) -> Self {
                    let commits = commits.into_iter().map(|commit| types::Commit {
                        position: commit.position().into(),
                        changes: commit.into_changes().into_iter().map(Into::into).collect(),
                    });
                    Self { commits: commits.collect(), position: position.into(), at_end: is_at_end }
                }
            }

            impl From<pipkin::ConsumerState> for types::ConsumerState {
                fn from(known: pipkin::ConsumerState) -> Self {
                    let pipkin::ConsumerState { name, cursor, retain, behind_bytes, is_too_far_behind, .. } = known;
                    Self { name, cursor: cursor.into(), retain_bytes: retain, behind_bytes, is_too_far_behind }
                }
            }

            impl From<pipkin::Stats> for admin::Stats {
                fn from(stats: pipkin::Stats) -> Self {
                    Self {
                        records: stats.records,
                        file_bytes: stats.file_bytes,
                        live_bytes: stats.live_bytes,
                        dead_bytes: stats.dead_bytes,
                        segments: stats.segments,
                        free_segments: stats.free_segments,
                        segment_bytes: stats.segment_size,
                        index_bytes: stats.index_bytes,
                        replay_bytes: stats.replay_debt,
                        namespaces: stats.namespaces,
                        expiring: stats.expiring,
                        clock_behind_ms: stats.clock_behind_ms,
                    }
                }
            }

            impl From<pipkin::CompactReport> for admin::Step {
                fn from(step: pipkin::CompactReport) -> Self {
                    Self { bytes_copied: step.bytes_copied, bytes_freed: step.bytes_freed }
                }
            }

            impl From<pipkin::VerifyReport> for admin::Report {
                fn from(report: pipkin::VerifyReport) -> Self {
                    let damage = report.damage.into_iter().map(Into::into).collect();
                    Self { records: report.records, bytes: report.bytes_checked, damage }
                }
            }
        };
    };
}
