//! `pipkin events retention`

use super::{existing, failed};
use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::expiry::parse_duration;
use crate::output;
use crate::store::Store;
use clap::Args;
use pipkin::Retention;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `events retention`.
#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    /// The store file
    store: PathBuf,
    /// The log of events
    log: String,
    /// Keep events for this time: 90 (seconds), 90s, 5m, 2h, 7d or 4w
    #[arg(long, value_name = "TIME")]
    max_age: Option<String>,
    /// Keep so many events
    #[arg(long, value_name = "COUNT")]
    max_events: Option<u64>,
    /// Keep all
    #[arg(long, conflicts_with_all = ["max_age", "max_events"])]
    all: bool,
}

#[derive(Serialize)]
struct Report {
    max_age_ms: Option<u64>,
    max_events: Option<u64>,
    removed: u64,
}

impl RetentionArgs {
    fn wanted(&self) -> Outcome<Option<Retention>> {
        if !self.all && self.max_age.is_none() && self.max_events.is_none() {
            return Ok(None);
        }
        let mut retention = Retention::new();
        if let Some(text) = &self.max_age {
            let age = parse_duration(text).ok_or_else(|| {
                Failure::usage(format!("{text:?} is no time; give seconds, or a number with s, m, h, d or w behind it"))
            })?;
            retention = retention.max_age(age);
        }
        Ok(Some(self.max_events.map_or(retention, |events| retention.max_events(events))))
    }
}

pub(crate) fn run(global: Global, args: &RetentionArgs) -> Outcome {
    let wanted = args.wanted()?;
    let none = NamespaceArg::default();
    let store = if wanted.is_some() { Store::change(&args.store, &none)? } else { Store::read(&args.store, &none)? };
    let log = existing(&store, &args.log)?;
    let mut removed = 0;
    if let Some(retention) = wanted {
        removed = log.set_retention(retention).and_then(|()| log.retain()).map_err(|error| failed(&store, &error))?;
    }
    let retention = log.retention();
    drop(log);
    if wanted.is_some() {
        store.flush_and_close()?;
    }
    let (age, max_events) = (retention.get_max_age(), retention.get_max_events());
    let age_text = age.map(|age| format!("events of the last {} s", age.as_secs()));
    let limits: Vec<String> = age_text.into_iter().chain(max_events.map(|events| format!("the last {events} events"))).collect();
    let mut plain =
        if limits.is_empty() { "all events are kept".to_owned() } else { format!("kept: {}", limits.join(", of these ")) };
    if removed > 0 {
        plain.push_str(&format!("; {removed} removed"));
    }
    let max_age_ms = age.map(|age| age.as_millis() as u64);
    output::report(global.json, &Report { max_age_ms, max_events, removed }, &plain)?;
    Ok(Exit::Done)
}
