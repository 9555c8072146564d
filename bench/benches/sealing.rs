//! Where a record of a sealed store is encrypted, by 1, 2, 4 and 8 threads. A nonce must never return under its key, so it is a number that
//! somebody counts; the choices are who counts it, and who waits for the encryption:
//!
//! - `plain`: no encryption, a copy under the lock, as today.
//! - `under the lock`: the nonce is the frame's log position, which only the holder of the tail's lock knows. Nothing is stored for it.
//! - `counted, stored`: a counter gives the nonce before the lock; 8 bytes more in each record.
//! - `reserved`: the lock gives a place only, encryption follows outside of it, and who is done waits for those in front of him.
//!
//! The tail is a model: a lock, a position, and a buffer that is started anew when it is full. `crc32c` and header cost the same in all of them
//! and are left out. Measured so, the second one was chosen; `core/FORMAT.md` relies on it.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use criterion::{BenchmarkId, Criterion, Throughput};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const THREADS: usize = 8;
const RECORDS: usize = 100_000;
/// A key of 24 bytes and a value of 150 with their header.
const FRAME: usize = 182;
const TAG: usize = 16;
const BUFFER: usize = 1 << 20;

struct Tail {
    position: u64,
    buffer: Vec<u8>,
}

impl Tail {
    fn append(&mut self, frame: &[u8]) {
        if self.buffer.len() + frame.len() > BUFFER {
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(frame);
        self.position += frame.len() as u64;
    }
}

struct Log {
    cipher: Aes256Gcm,
    tail: Mutex<Tail>,
    counter: AtomicU64,
    published: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    UnderTheLock,
    CountedStored,
    Reserved,
}

impl Log {
    fn new() -> Self {
        let tail = Mutex::new(Tail { position: 0, buffer: Vec::with_capacity(BUFFER) });
        Self { cipher: Aes256Gcm::new(&[7; 32].into()), tail, counter: AtomicU64::new(0), published: AtomicU64::new(0) }
    }

    fn seal(&self, frame: &mut [u8], nonce: u64) {
        let mut bytes = [0_u8; 12];
        if let Some(place) = bytes.first_chunk_mut() {
            *place = nonce.to_le_bytes();
        }
        let (body, tag) = frame.split_at_mut(FRAME);
        let sum = self.cipher.encrypt_inout_detached((&bytes).into(), b"store, salt, head", body.into()).expect("a short text");
        for (place, byte) in tag.iter_mut().zip(sum) {
            *place = byte;
        }
    }

    fn append(&self, way: Way, number: u64) {
        let mut frame = [number as u8; FRAME + TAG + 8];
        let lock = || self.tail.lock().expect("nobody panics");
        match way {
            Way::Plain => lock().append(frame.get(..FRAME).unwrap_or_default()),
            Way::UnderTheLock => {
                let mut tail = lock();
                self.seal(&mut frame, tail.position);
                tail.append(frame.get(..FRAME + TAG).unwrap_or_default());
            }
            Way::CountedStored => {
                self.seal(&mut frame, self.counter.fetch_add(1, Ordering::Relaxed));
                lock().append(&frame);
            }
            Way::Reserved => {
                let position = {
                    let mut tail = lock();
                    tail.append(frame.get(..FRAME + TAG).unwrap_or_default());
                    tail.position
                };
                self.seal(&mut frame, position);
                let from = position - (FRAME + TAG) as u64;
                while self.published.compare_exchange_weak(from, position, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    std::thread::yield_now();
                }
            }
        }
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("sealing");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(RECORDS as u64));
    for way in [Way::Plain, Way::UnderTheLock, Way::CountedStored, Way::Reserved] {
        for threads in (0..).map(|doublings| 1 << doublings).take_while(|&threads| threads <= THREADS) {
            group.bench_function(BenchmarkId::new(format!("{way:?}"), threads), |bench| {
                bench.iter(|| {
                    let log = Log::new();
                    std::thread::scope(|scope| {
                        for thread in 0..threads {
                            let log = &log;
                            let share = (thread * RECORDS / threads) as u64..((thread + 1) * RECORDS / threads) as u64;
                            scope.spawn(move || share.for_each(|number| log.append(way, number)));
                        }
                    });
                    log
                });
            });
        }
    }
    group.finish();
    criterion.final_summary();
}
