//! Converts between the events of the engine and those of the interfaces.

/// Implements the conversions between the engine's events and the types generated from the interfaces `types` and `events`.
#[macro_export]
macro_rules! impl_event_conversions {
    (types: $types:path, events: $events:path) => {
        const _: () = {
            use $events as events;
            use $types as types;

            impl From<types::Expected> for pipkin::Expected {
                fn from(expected: types::Expected) -> Self {
                    match expected {
                        types::Expected::Any => Self::Any,
                        types::Expected::NoStream => Self::NoStream,
                        types::Expected::Exists => Self::Exists,
                        types::Expected::Version(version) => Self::Version(version),
                        types::Expected::Anew => Self::Anew,
                    }
                }
            }

            impl From<pipkin::Expected> for types::Expected {
                fn from(expected: pipkin::Expected) -> Self {
                    match expected {
                        pipkin::Expected::NoStream => Self::NoStream,
                        pipkin::Expected::Exists => Self::Exists,
                        pipkin::Expected::Version(version) => Self::Version(version),
                        pipkin::Expected::Anew => Self::Anew,
                        _ => Self::Any,
                    }
                }
            }

            impl From<&pipkin::FailedCheck> for types::FailedCheck {
                fn from(failed: &pipkin::FailedCheck) -> Self {
                    match failed {
                        pipkin::FailedCheck::Version { stream, expected, current } => Self::Version(types::VersionCheck {
                            stream: (**stream).into(),
                            expected: (*expected).into(),
                            current: *current,
                        }),
                        pipkin::FailedCheck::Condition { number, .. } => Self::Query(*number),
                        _ => Self::Query(0),
                    }
                }
            }

            impl<'a> From<&'a events::NewEvent> for pipkin::NewEvent<'a> {
                fn from(event: &'a events::NewEvent) -> Self {
                    let new = Self::new(&*event.kind, &event.payload).metadata(&event.metadata);
                    let mut new = event.tags.iter().fold(new, |new, tag| new.tag(&**tag));
                    if let Some((high, low)) = event.id {
                        new = new.id((u128::from(high) << 64 | u128::from(low)).to_be_bytes());
                    }
                    if let Some(time) = event.time_ms {
                        new = new.time_ms(time);
                    }
                    new
                }
            }

            impl From<pipkin::Event> for events::Event {
                fn from(event: pipkin::Event) -> Self {
                    let id = u128::from_be_bytes(event.id());
                    Self {
                        number: event.number(),
                        stream: event.stream().into(),
                        version: event.version(),
                        kind: event.kind().into(),
                        payload: event.payload().into(),
                        tags: event.tags().map(Into::into).collect(),
                        metadata: event.metadata().into(),
                        id: ((id >> 64) as u64, id as u64),
                        time_ms: event.time_ms(),
                    }
                }
            }

            impl From<pipkin::Appended> for events::Appended {
                fn from(appended: pipkin::Appended) -> Self {
                    let pipkin::Appended { first_number, last_number, version, repeated, .. } = appended;
                    Self { first_number, last_number, version, repeated }
                }
            }

            impl From<events::Retention> for pipkin::Retention {
                fn from(retention: events::Retention) -> Self {
                    let kept = retention.max_events.map_or_else(Self::new, |events| Self::new().max_events(events));
                    retention.max_age_ms.map_or(kept, |age| kept.max_age(core::time::Duration::from_millis(age)))
                }
            }

            impl From<pipkin::Retention> for events::Retention {
                fn from(retention: pipkin::Retention) -> Self {
                    let max_age_ms = retention.get_max_age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
                    Self { max_age_ms, max_events: retention.get_max_events() }
                }
            }

            impl From<events::Selection> for $crate::Selection {
                fn from(selection: events::Selection) -> Self {
                    match selection {
                        events::Selection::All => Self::All,
                        events::Selection::InStream(stream) => Self::Stream(stream),
                        events::Selection::OfKind(kind) => Self::Matching([([kind].into(), [].into())].into()),
                        events::Selection::Tagged(tag) => Self::Matching([([].into(), [tag].into())].into()),
                        events::Selection::Matching(items) => {
                            Self::Matching(items.into_iter().map(|item| (item.kinds, item.tags)).collect())
                        }
                    }
                }
            }

            impl From<$crate::EventPage> for events::Page {
                fn from(page: $crate::EventPage) -> Self {
                    let $crate::EventPage { events, number, is_at_end } = page;
                    Self { events: events.into_iter().map(Into::into).collect(), number, at_end: is_at_end }
                }
            }
        };
    };
}
