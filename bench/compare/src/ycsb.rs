//! YCSB's workloads A to F, as requests that are made while they are served: all of them together would not fit into the limit.

use crate::data::Random;
use crate::zipf::Zipf;

/// The longest scan; lengths are drawn evenly up to it.
const SCAN: u64 = 100;

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Uniform,
    Zipfian,
}

impl Choice {
    pub(crate) const ALL: [Self; 2] = [Self::Uniform, Self::Zipfian];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// Shares of the kinds of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The rest are reads.
    updates: f64,
    inserts: f64,
    scans: f64,
    modifies: f64,
    /// Reads prefer what was inserted last.
    latest: bool,
}

const READS: Workload =
    Workload { name: "c", about: "reads", updates: 0.0, inserts: 0.0, scans: 0.0, modifies: 0.0, latest: false };

/// In the order in which they run: what writes comes behind what reads.
pub(crate) const WORKLOADS: [Workload; 6] = [
    READS,
    Workload { name: "b", about: "5 % updates", updates: 0.05, ..READS },
    Workload { name: "d", about: "reads of the newest, 5 % insertions", inserts: 0.05, latest: true, ..READS },
    Workload { name: "e", about: "ranges of 1 to 100, 5 % insertions", inserts: 0.05, scans: 0.95, ..READS },
    Workload { name: "f", about: "half reads, half reads with an update behind", modifies: 0.5, ..READS },
    Workload { name: "a", about: "half updates", updates: 0.5, ..READS },
];

impl Workload {
    /// What is read in D are the newest, whatever the distribution: it runs once.
    pub(crate) fn runs_with(&self, choice: Choice) -> bool {
        !self.latest || choice == Choice::Zipfian
    }

    pub(crate) fn scans(&self) -> bool {
        self.scans > 0.0
    }

    pub(crate) fn writes(&self) -> bool {
        self.updates + self.inserts + self.modifies > 0.0
    }
}

/// One request, by the number of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read(u64),
    Update(u64),
    /// A read and an update of the same record.
    Modify(u64),
    Insert(u64),
    /// From the key of that record on, so many.
    Scan(u64, usize),
}

/// Draws requests for a store whose records have the numbers from 0.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    random: Random,
    zipf: Option<&'a Zipf>,
    loaded: u64,
    /// The number of the first insertion, and how many there were.
    first: u64,
    inserted: u64,
}

impl<'a> Requests<'a> {
    /// Insertions get the numbers from `first` on; without a distribution every record is as likely as the others.
    pub(crate) fn new(loaded: u64, first: u64, zipf: Option<&'a Zipf>, seed: u64) -> Self {
        Self { random: Random::new(seed), zipf, loaded, first, inserted: 0 }
    }

    pub(crate) fn next(&mut self, workload: &Workload) -> Request {
        let mut share = self.random.unit();
        let mut is = |part: f64| {
            let here = share < part;
            share -= part;
            here
        };
        if is(workload.updates) {
            Request::Update(self.any())
        } else if is(workload.inserts) {
            self.inserted += 1;
            Request::Insert(self.first + self.inserted - 1)
        } else if is(workload.scans) {
            Request::Scan(self.any(), 1 + (self.random.next() % SCAN) as usize)
        } else if is(workload.modifies) {
            Request::Modify(self.any())
        } else {
            Request::Read(if workload.latest { self.recent() } else { self.any() })
        }
    }

    /// A loaded record. Popular ones are spread over the store: popularity has nothing to do with age.
    fn any(&mut self) -> u64 {
        let drawn = match self.zipf {
            Some(zipf) => Random::new(zipf.rank(&mut self.random) as u64).next(),
            None => self.random.next(),
        };
        drawn % self.loaded
    }

    /// The newest is the most popular.
    fn recent(&mut self) -> u64 {
        let age = self.zipf.map_or(0, |zipf| zipf.rank(&mut self.random) as u64);
        match self.inserted.checked_sub(age + 1) {
            Some(place) => self.first + place,
            None => self.loaded.saturating_sub(age - self.inserted + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_draws_what_it_says_of_records_that_are_there() {
        let zipf = Zipf::new(1000);
        for workload in WORKLOADS {
            let mut requests = Requests::new(1000, 5000, Some(&zipf), 1);
            let mut kinds = [0.0; 5];
            for _ in 0..10_000 {
                let request = requests.next(&workload);
                let there = |number| number < 1000 || (5000..5000 + requests.inserted).contains(&number);
                let kind = match request {
                    Request::Read(number) if there(number) => 0,
                    Request::Update(number) if there(number) => 1,
                    Request::Insert(number) if number == 5000 + requests.inserted - 1 => 2,
                    Request::Scan(number, 1..=100) if there(number) => 3,
                    Request::Modify(number) if there(number) => 4,
                    other => unreachable!("{other:?} in {}", workload.name),
                };
                kinds.iter_mut().skip(kind).take(1).for_each(|count| *count += 1e-4);
            }
            let [reads, updates, inserts, scans, modifies] = kinds;
            let others = [
                (updates, workload.updates),
                (inserts, workload.inserts),
                (scans, workload.scans),
                (modifies, workload.modifies),
            ];
            assert!(others.iter().all(|(drawn, share)| (drawn - share).abs() < 0.02), "{}: {kinds:?}", workload.name);
            assert!((reads + updates + inserts + scans + modifies - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_newest_are_asked_for_most() {
        let zipf = Zipf::new(1000);
        let mut requests = Requests::new(1000, 1000, Some(&zipf), 1);
        let latest = WORKLOADS.iter().find(|workload| workload.latest);
        let Some(latest) = latest else { unreachable!("no workload reads the newest") };
        let new = (0..10_000).filter(|_| matches!(requests.next(latest), Request::Read(number) if number >= 900));
        assert!(new.count() > 5_000);
    }
}
