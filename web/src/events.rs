//! Event streams, by packed calls: `events-wire.ts` in `web/npm/src/` is the other end.
//!
//! ```text
//! call      := 1, log bytes, stream bytes, expected, 0 | 1 query, after f64, count u32, new event*     appends
//!            | 2, log bytes, cursor bytes, token u64, number f64                                       acknowledges
//!            | 3, log bytes, cursor bytes, selection, after f64                                        takes a cursor
//!            | 4, log bytes, cursor bytes                                                              forgets one
//!            | 5, log bytes, stream bytes, before f64                                                  removes events of a stream
//!            | 6, log bytes, stream bytes, count f64                                                   keeps the last ones
//!            | 7, log bytes, time f64                                                                  removes old ones
//!            | 8, log bytes, kept                                                                      sets what the log keeps
//!            | 9, log bytes                                                                            removes what it need not keep
//!            | 16, log bytes, reader f64, selection, backwards u8, from f64, behind f64, most f64      reads a page; behind is NaN for the first
//!            | 17, log bytes, selection, behind f64                                                    reads what has come and is durable
//!            | 18, log bytes, stream bytes                                                             figures
//! kept      := age f64, events f64                                        each is NaN for no limit
//! expected  := f64                                                        a version | -1 anything | -2 an event
//! selection := 0 | 1 stream bytes | 2 query
//! query     := count u32, (count u32, type bytes*, count u32, tag bytes*)*
//! new event := id 16, time f64, type bytes, payload bytes, metadata bytes, count u32, tag bytes*       time is NaN for now
//! answer    := first f64, last f64, version f64, repeated u8 | token u64, number f64 | count f64 | page
//!            | version f64, last number f64, kept, count u32, (cursor bytes, number f64)*
//! page      := at end u8, behind f64, count u32, event*
//! event     := number f64, version f64, stream bytes, then as a new event
//! ```

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use pipkin::{Condition, Error, Event, EventReader, Events, Expected, NewEvent, Retention};

use crate::failure::{Code, Failure};
use crate::requests;
use crate::shared::Open;
use crate::transactions::Running;
use crate::wire::{Reader, put_bytes};

/// A page ends with the event that brings it to this many bytes.
const PAGE_BYTES: usize = 256 * 1024;
/// Calls from this number on only read.
const READS: u8 = 16;

type Said<T> = core::result::Result<T, Failure>;

/// Whether a call may write.
pub(crate) fn is_write(call: &[u8]) -> bool {
    call.first().is_some_and(|kind| *kind < READS)
}

/// What an append says.
struct Append<'a> {
    stream: &'a str,
    expected: Expected,
    condition: Option<Condition>,
    events: Vec<NewEvent<'a>>,
    /// Of the last event.
    id: [u8; 16],
}

fn nonsense() -> Failure {
    Failure::new(Code::Usage, "a call of events that makes no sense")
}

fn failed(error: &Error) -> Failure {
    Failure::of_commit(error)
}

/// What a page says as a number, in the engine's terms: infinite is the largest.
fn whole(number: f64) -> u64 {
    number as u64
}

fn retention(age: f64, events: f64) -> Retention {
    let kept = if age.is_nan() { Retention::new() } else { Retention::new().max_age(Duration::from_millis(whole(age))) };
    if events.is_nan() { kept } else { kept.max_events(whole(events)) }
}

struct Call<'a>(Reader<'a>);

impl<'a> Call<'a> {
    fn text(&mut self) -> Said<&'a str> {
        self.0.bytes().and_then(|bytes| core::str::from_utf8(bytes).ok()).ok_or_else(nonsense)
    }

    fn number(&mut self) -> Said<f64> {
        self.0.number().ok_or_else(nonsense)
    }

    fn byte(&mut self) -> Said<u8> {
        self.0.byte().ok_or_else(nonsense)
    }

    fn texts<T: From<&'a str>>(&mut self) -> Said<Vec<T>> {
        let text = |reader: &mut Reader<'a>| Some(core::str::from_utf8(reader.bytes()?).ok()?.into());
        self.0.many(text).ok_or_else(nonsense)
    }

    fn query(&mut self) -> Said<Condition> {
        let mut query = None;
        for _ in 0..self.0.count().ok_or_else(nonsense)? {
            let (types, tags) = (self.texts::<String>()?, self.texts::<String>()?);
            query = Some(match query {
                None => Condition::new(types, tags),
                Some(query) => Condition::or(query, types, tags),
            });
        }
        query.ok_or_else(|| Failure::new(Code::Usage, "a query needs an item"))
    }

    fn reader(&mut self, log: &Events) -> Said<EventReader> {
        Ok(match self.byte()? {
            0 => log.all(),
            1 => log.stream(self.text()?),
            _ => log.matching(&self.query()?),
        })
    }

    fn append(&mut self) -> Said<Append<'a>> {
        let stream = self.text()?;
        let expected = match self.number()? {
            -1.0 => Expected::Any,
            -2.0 => Expected::Exists,
            -3.0 => Expected::Anew,
            version => Expected::Version(whole(version)),
        };
        let condition = if self.byte()? == 0 { None } else { Some(self.query()?.after(whole(self.number()?))) };
        let (mut events, mut id) = (Vec::new(), [0; 16]);
        for _ in 0..self.0.count().ok_or_else(nonsense)? {
            id = self.0.array().ok_or_else(nonsense)?;
            let time = self.number()?;
            let kind = self.text()?;
            let payload = self.0.bytes().ok_or_else(nonsense)?;
            let event = NewEvent::new(kind, payload).id(id).metadata(self.0.bytes().ok_or_else(nonsense)?);
            let event = if time.is_nan() { event } else { event.time_ms(whole(time)) };
            events.push(self.texts::<&'a str>()?.into_iter().fold(event, NewEvent::tag));
        }
        Ok(Append { stream, expected, condition, events, id })
    }
}

/// The log of a call, and the rest of it.
fn opened<'a>(open: &Open, call: &'a [u8]) -> Said<(u8, Events, Call<'a>)> {
    let mut call = Call(Reader::new(call));
    let kind = call.byte()?;
    let name = call.text()?;
    let mut log = None;
    let named = open.room.with(&open.db, &mut || open.db.events(name).map(|found| log = Some(found)));
    named.map_err(|error| failed(&error))?;
    Ok((kind, log.ok_or_else(nonsense)?, call))
}

/// Carries a call out. `record` notes in the commit of an append that this request was carried out, and `known` that it was before.
pub(crate) fn run(open: &Open, call: &[u8], record: Option<([u8; 16], Vec<u8>)>, known: Option<u8>) -> Said<Vec<u8>> {
    let (kind, log, mut call) = opened(open, call)?;
    let mut out = Vec::new();
    match kind {
        1 => append(open, &log, &call.append()?, record, known, &mut out)?,
        2 => {
            let (name, token, number) = acknowledged(&mut call)?;
            let moved = log.all().resume(number, Some((name.into(), token)));
            let cursor = moved.map_err(|error| failed(&error))?;
            open.room.with(&open.db, &mut || cursor.ack(number)).map_err(|error| failed(&error))?;
        }
        3 => {
            let name = call.text()?;
            let reader = call.reader(&log)?.from(whole(call.number()?).saturating_add(1));
            let mut taken = None;
            let took = open.room.with(&open.db, &mut || reader.cursor(name).map(|cursor| taken = Some(cursor)));
            took.map_err(|error| failed(&error))?;
            let cursor = taken.ok_or_else(nonsense)?;
            out.extend_from_slice(&cursor.token().to_le_bytes());
            put_number(&mut out, cursor.number());
        }
        8 => {
            let kept = retention(call.number()?, call.number()?);
            open.room.with(&open.db, &mut || log.set_retention(kept)).map_err(|error| failed(&error))?;
        }
        16 => read(open, &log, &mut call, &mut out)?,
        17 => follow(&log, &mut call, &mut out)?,
        18 => figures(&log, call.text()?, &mut out)?,
        kind => {
            let mut count = 0;
            let name = if matches!(kind, 7 | 9) { "" } else { call.text()? };
            let number = if matches!(kind, 4 | 9) { 0.0 } else { call.number()? };
            let number = whole(number);
            let removed = open.room.with(&open.db, &mut || {
                count += match kind {
                    4 => u64::from(log.remove_cursor(name)?),
                    5 => log.truncate(name, number)?,
                    6 => log.keep_last(name, number)?,
                    9 => log.retain()?,
                    _ => log.remove_before_ms(number)?,
                };
                Ok(())
            });
            removed.map_err(|error| failed(&error))?;
            put_number(&mut out, count);
        }
    }
    Ok(out)
}

/// Carries a call out in a transaction.
pub(crate) fn run_in(open: &Open, running: &mut Running, call: &[u8]) -> Said<Vec<u8>> {
    let (kind, log, mut call) = opened(open, call)?;
    let transaction = running.transaction();
    let done = match kind {
        1 => {
            let Append { stream, expected, condition: None, events, .. } = call.append()? else { return Err(nonsense()) };
            transaction.append(&log, stream, expected, events)
        }
        2 => {
            let (name, token, number) = acknowledged(&mut call)?;
            log.all().resume(number, Some((name.into(), token))).and_then(|cursor| transaction.ack(&cursor, number))
        }
        _ => return Err(nonsense()),
    };
    done.map(|()| Vec::new()).map_err(|error| Failure::from(&error))
}

fn acknowledged<'a>(call: &mut Call<'a>) -> Said<(&'a str, u64, u64)> {
    Ok((call.text()?, call.0.array().map(u64::from_le_bytes).ok_or_else(nonsense)?, whole(call.number()?)))
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&(number as f64).to_le_bytes());
}

fn append(
    open: &Open,
    log: &Events,
    append: &Append<'_>,
    record: Option<([u8; 16], Vec<u8>)>,
    known: Option<u8>,
    out: &mut Vec<u8>,
) -> Said<()> {
    if let Some(outcome) = known {
        if outcome != 1 {
            return match requests::answer_of(outcome) {
                crate::wire::Answer::Failed(failure) => Err(failure),
                _ => Err(nonsense()),
            };
        }
        return carried_out(log, append, out);
    }
    let Append { stream, expected, condition, events, .. } = append;
    let namespace = record.as_ref().map(|_| requests::namespace(&open.db)).transpose().map_err(|error| failed(&error))?;
    let appended = open.room.with(&open.db, &mut || {
        let mut batch = open.db.batch().append(log, *stream, *expected, events.iter().cloned());
        if let Some(condition) = condition {
            batch = batch.only_if_none(log, condition.clone());
        }
        match (&namespace, &record) {
            (Some(namespace), Some((client, record))) => batch.insert_in(namespace, client.as_slice(), record).commit(),
            _ => batch.commit(),
        }
    });
    match appended {
        Ok(()) => carried_out(log, append, out),
        // Where the same events are there already, this is no refusal.
        Err(Error::AppendRefused { .. }) if condition.is_none() => {
            let again = log.append(stream, *expected, events.iter().cloned()).map_err(|error| failed(&error))?;
            put_appended(out, (again.first_number, again.last_number, again.version), again.repeated);
            Ok(())
        }
        Err(error) => Err(failed(&error)),
    }
}

/// What an append has got that was carried out, now or before its answer was lost.
fn carried_out(log: &Events, append: &Append<'_>, out: &mut Vec<u8>) -> Said<()> {
    let events = log.stream(append.stream).backwards(true).iter().map_err(|error| failed(&error))?;
    for event in events {
        let event = event.map_err(|error| failed(&error))?;
        if event.id() == append.id {
            let first = event.number() + 1 - append.events.len() as u64;
            put_appended(out, (first, event.number(), event.version()), false);
            return Ok(());
        }
    }
    Err(Failure::new(Code::OutcomeUnknown, "the events were appended, and have been removed since"))
}

fn put_appended(out: &mut Vec<u8>, (first, last, version): (u64, u64, u64), repeated: bool) {
    put_number(out, first);
    put_number(out, last);
    put_number(out, version);
    out.push(u8::from(repeated));
}

/// A page that is being put together.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    count: u32,
}

impl Page {
    fn put(&mut self, event: &Event) {
        put_number(&mut self.bytes, event.number());
        put_number(&mut self.bytes, event.version());
        put_bytes(&mut self.bytes, event.stream().as_bytes());
        self.bytes.extend_from_slice(&event.id());
        put_number(&mut self.bytes, event.time_ms());
        put_bytes(&mut self.bytes, event.kind().as_bytes());
        put_bytes(&mut self.bytes, event.payload());
        put_bytes(&mut self.bytes, event.metadata());
        self.bytes.extend_from_slice(&(event.tags().count() as u32).to_le_bytes());
        event.tags().for_each(|tag| put_bytes(&mut self.bytes, tag.as_bytes()));
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= PAGE_BYTES
    }

    fn end(self, is_at_end: bool, behind: f64, out: &mut Vec<u8>) {
        out.push(u8::from(is_at_end));
        out.extend_from_slice(&behind.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.bytes);
    }
}

/// Where a walk goes on behind an event: by its version in a stream, by its number otherwise.
fn place(event: &Event, in_stream: bool) -> f64 {
    (if in_stream { event.version() } else { event.number() }) as f64
}

/// An error comes with the next page, after the events in front of it: that one begins anew, and meets it again.
fn read(open: &Open, log: &Events, call: &mut Call<'_>, out: &mut Vec<u8>) -> Said<()> {
    let number = call.number()?;
    let in_stream = call.0.peek() == Some(1);
    let reader = call.reader(log)?;
    let backwards = call.byte()? == 1;
    let (from, behind, most) = (whole(call.number()?), call.number()?, whole(call.number()?));
    let begin = || {
        let from = if backwards || behind.is_nan() { from } else { whole(behind) + 1 };
        reader.from(from).backwards(backwards).iter().map_err(|error| failed(&error))
    };
    let (mut events, is_anew) = match open.walks.take(number, behind) {
        Some(events) => (events, false),
        None => (begin()?, backwards && !behind.is_nan()),
    };
    let (mut page, mut behind) = (Page::default(), behind);
    while !page.is_full() && u64::from(page.count) < most {
        match events.next() {
            // Backwards, a walk that begins anew passes what was handed out.
            Some(Ok(event)) if is_anew && place(&event, in_stream) >= behind => {}
            Some(Ok(event)) => {
                behind = place(&event, in_stream);
                page.put(&event);
            }
            None => {
                page.end(true, behind, out);
                return Ok(());
            }
            Some(Err(error)) if page.count == 0 => return Err(failed(&error)),
            Some(Err(_)) => {
                page.end(false, behind, out);
                return Ok(());
            }
        }
    }
    open.walks.keep(number, behind, events);
    page.end(false, behind, out);
    Ok(())
}

fn follow(log: &Events, call: &mut Call<'_>, out: &mut Vec<u8>) -> Said<()> {
    let reader = call.reader(log)?;
    let mut events = reader.resume(whole(call.number()?), None).map_err(|error| failed(&error))?;
    let (mut page, mut behind, mut is_at_end) = (Page::default(), events.number(), false);
    while !page.is_full() {
        match events.try_next() {
            Ok(Some(event)) => page.put(&event),
            Ok(None) => is_at_end = true,
            Err(error) if page.count == 0 => return Err(failed(&error)),
            Err(_) => break,
        }
        behind = events.number();
        if is_at_end {
            break;
        }
    }
    page.end(is_at_end, behind as f64, out);
    Ok(())
}

fn figures(log: &Events, stream: &str, out: &mut Vec<u8>) -> Said<()> {
    let version = if stream.is_empty() { Ok(0) } else { log.version(stream) };
    put_number(out, version.map_err(|error| failed(&error))?);
    put_number(out, log.last_number().map_err(|error| failed(&error))?);
    let kept = log.retention();
    let age = kept.get_max_age().map(|age| age.as_millis() as f64);
    for limit in [age, kept.get_max_events().map(|events| events as f64)] {
        out.extend_from_slice(&limit.unwrap_or(f64::NAN).to_le_bytes());
    }
    let cursors = log.cursors().map_err(|error| failed(&error))?;
    out.extend_from_slice(&(cursors.len() as u32).to_le_bytes());
    for (name, number) in cursors {
        put_bytes(out, name.as_bytes());
        put_number(out, number);
    }
    Ok(())
}
