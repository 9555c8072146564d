//! `results.csv`: a line for each sample, for a spreadsheet.

use crate::Result;
use crate::sample::{Percentiles, Sample};

const HEAD: &str = "engine,row,round,value,unit,operations,counts,p50_ns,p99_ns,p999_ns,longest_ns,note\n";

pub(super) fn page(samples: &[Sample]) -> Result<String> {
    let mut out = HEAD.to_owned();
    for sample in samples {
        let latency = sample.latency.map_or_else(Default::default, |Percentiles { p50, p99, p999, max }| {
            [p50, p99, p999, max].map(|nanoseconds| nanoseconds.to_string())
        });
        let unit = serde_json::to_value(sample.unit)?;
        let fields = [
            sample.engine.clone(),
            sample.row.clone(),
            sample.round.to_string(),
            sample.value.map(|value| value.to_string()).unwrap_or_default(),
            unit.as_str().unwrap_or_default().to_owned(),
            sample.ops.to_string(),
            sample.counts.to_string(),
        ];
        let note = sample.note.clone().unwrap_or_default();
        let line: Vec<String> = fields.into_iter().chain(latency).chain([note]).map(quoted).collect();
        out += &(line.join(",") + "\n");
    }
    Ok(out)
}

/// As RFC 4180 has it.
fn quoted(field: String) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Unit;

    #[test]
    fn a_line_has_as_many_fields_as_the_head() {
        let mut sample = Sample::absent("pipkin", "load", 0, Unit::BytesEach, "not \"here\", but there");
        let fields = |text: &str| text.lines().nth(1).map(|line| line.split(',').count());
        let page = page(std::slice::from_ref(&sample)).unwrap_or_default();
        assert!(page.ends_with("pipkin,load,0,,bytes_each,1,true,,,,,\"not \"\"here\"\", but there\"\n"), "{page}");
        sample.note = None;
        sample.latency = Some(Percentiles { p50: 1, p99: 2, p999: 3, max: 4 });
        let page = super::page(&[sample]).unwrap_or_default();
        assert!(page.ends_with("true,1,2,3,4,\n"), "{page}");
        assert_eq!(fields(&page), Some(HEAD.split(',').count()));
    }
}
