//! How long a record lives, on the command line.

use crate::exit::{Failure, Outcome};
use clap::Args;
use pipkin::Ttl;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds of each unit of a duration.
const UNITS: [(&str, u64); 5] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
const DAY: i64 = 86_400;

/// How long what is written lives.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TtlArgs {
    /// Let the record expire after this time: 90 (seconds), 90s, 5m, 2h, 7d or 4w
    #[arg(long, value_name = "TIME", conflicts_with = "expires")]
    ttl: Option<String>,
    /// Let the record expire then: 2030-12-31, 2030-12-31T23:59:59Z, or milliseconds since 1970
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

impl TtlArgs {
    pub(crate) fn ttl(&self) -> Outcome<Ttl> {
        match (&self.ttl, &self.expires) {
            (Some(text), _) => duration(text).map(Ttl::After),
            (None, Some(text)) => {
                let time = parse_time(text).ok_or_else(|| {
                    Failure::usage(format!("{text:?} is no date; give one like 2030-12-31T23:59:59Z, or milliseconds since 1970"))
                })?;
                if is_past(time) {
                    // Seconds since 1970, taken for milliseconds, are in January or February of that year.
                    return Err(Failure::usage(format!(
                        "{text} has passed: the record would be gone at once; a number counts milliseconds since 1970, not seconds"
                    )));
                }
                Ok(Ttl::At(time))
            }
            (None, None) => Ok(Ttl::Default),
        }
    }
}

fn is_past(time: u64) -> bool {
    SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|now| u128::from(time) <= now.as_millis())
}

/// The time of an argument like `5m`.
pub(crate) fn duration(text: &str) -> Outcome<Duration> {
    parse_duration(text)
        .ok_or_else(|| Failure::usage(format!("{text:?} is no time; give seconds, or a number with s, m, h, d or w behind it")))
}

/// The time of a duration like `5m`; at least a second.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let unit = UNITS.iter().find_map(|&(unit, seconds)| text.strip_suffix(unit).map(|number| (number, seconds)));
    let (number, seconds) = unit.unwrap_or((text, 1));
    let number: u64 = number.parse().ok().filter(|&number| number > 0)?;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

/// Milliseconds since 1970 of a date, with or without a time of day, in UTC; or that number itself.
fn parse_time(text: &str) -> Option<u64> {
    if let Ok(ms) = text.parse() {
        return Some(ms);
    }
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let days = if is_date { days_since_1970(year, month, day)? } else { return None };
    let time = time.strip_suffix('Z').unwrap_or(time);
    let mut clock = [0; 3];
    if !time.is_empty() {
        let parts: Vec<Option<i64>> = time.split(':').map(|part| part.parse().ok()).collect();
        if !(2..=3).contains(&parts.len()) {
            return None;
        }
        for (place, part) in clock.iter_mut().zip(parts) {
            *place = part?;
        }
    }
    let [hours, minutes, seconds] = clock;
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return None;
    }
    let of_day = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)?;
    u64::try_from(days.checked_mul(DAY)?.checked_add(of_day)?.checked_mul(1000)?).ok()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; `None` for a day that the month does not have.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = lengths.get(..usize::try_from(month.checked_sub(1)?).ok()?)?;
    let length = lengths.get(before.len())?;
    let years = (1970..year).map(|year| if is_leap(year) { 366_i64 } else { 365 }).sum::<i64>();
    (day <= *length).then(|| years + before.iter().sum::<i64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("7d", 604_800), ("4w", 2_419_200)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "-1", "m", "1.5h", "5 m", "1y", "99999999999999999999", "18446744073709551615w"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_dates_or_milliseconds() {
        for (text, ms) in [
            ("0", 0),
            ("1700000000000", 1_700_000_000_000),
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14 22:13:20", 1_700_000_000_000),
            ("2100-01-01T00:00Z", 4_102_444_800_000),
        ] {
            assert_eq!(parse_time(text), Some(ms), "{text}");
        }
        for text in ["", "tomorrow", "2023-02-29", "2023-13-01", "2023-11-14T24:00Z", "2023-11-14T22Z", "1969-12-31", "-5"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
