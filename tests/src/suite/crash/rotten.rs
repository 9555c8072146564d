//! Flipped bits at the end of a generation: all the bytes are safe.

use super::Life;
use crate::check::{After, check_by_reader, examine};
use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Player};
use crate::forge;
use crate::model::History;
use crate::rng::{Rng, choose, index};
use crate::suite::rot;
use crate::tape::{Op, Val};
use pipkin::Storage;
use pipkin::limits::DATA_START;
use pipkin::storage::crash::CrashImage;
use std::sync::atomic::Ordering;

/// Bytes of a segment's header, both copies.
const HEADER_LEN: usize = 704;

impl Life<'_> {
    /// Flips bits of the final bytes: all of them safe, as the kill left them, closed, and flushed before a kill.
    pub(super) fn rot(&mut self, killed: &CrashImage, history: &History) -> Result<(), Fault> {
        let closing = Disk::from_image(killed);
        let entropy = self.entropy();
        self.setup.open(closing.storage(), entropy)?.close()?;
        let closed = closing.image();
        let puts = self.rng.below(4);
        let (flushed, flushed_history) = self.flush_and_kill(killed, history, puts)?;
        let whole = [(killed, history, "killed"), (&closed, history, "closed"), (&flushed, &flushed_history, "flushed")];
        for (image, history, how) in whole {
            let entropy = self.entropy();
            examine(image, &self.setup, history, (history.newest(), history.newest()), After::Kill, entropy)
                .map_err(|fault| fault.at(format!("the {how} store, before any bit is flipped")))?;
        }
        // The first place of the file loses both copies of its header, in a store that may have no checkpoint yet. The superblock knows how
        // far it was flushed.
        let (beginning, beginning_history) = self.flush_and_kill(killed, history, 0)?;
        beginning.write_at(DATA_START, &[&[0; HEADER_LEN]]).map_err(pipkin::Error::from)?;
        let entropy = self.entropy();
        self.count_image();
        self.counts.rotten.fetch_add(1, Ordering::Relaxed);
        rot::Subject::new(self.setup.clone(), beginning_history)
            .look(&beginning, rot::Loss::None, rot::Then::Read, entropy)
            .map_err(|fault| fault.at("the first segment's header is lost in the flushed store"))?;
        // Flipped bits of sealed stores are `core/tests/engine/sealed.rs`: salvage, which is one of what is tried here, does not read them.
        if self.setup.sealed {
            return Ok(());
        }
        let subjects = whole.map(|(_, history, _)| rot::Subject::new(self.setup.clone(), history.clone()));
        for i in 0..self.flips as usize {
            // What a flush has acknowledged is proven although nothing follows: no bit of it is given up.
            let kind = [1, 2, 0, 2][i % 4];
            let (image, _, how) = whole[kind];
            let loss = if kind == 0 { rot::Loss::Reported } else { rot::Loss::None };
            let bit = self.rng.below(image.len().unwrap_or(0) * 8);
            let then = choose(&mut self.rng, &rot::Then::ALL);
            let entropy = self.entropy();
            self.watch.tick();
            self.count_image();
            self.counts.rotten.fetch_add(1, Ordering::Relaxed);
            subjects[kind].flip(image, bit, loss, then, entropy).map_err(|fault| {
                fault.at(format!("bit {} of byte {} flipped in the {how} store, then {then:?}", bit % 8, bit / 8))
            })?;
        }
        if self.flips > 0 {
            for ((image, history, how), subject) in whole.iter().zip(&subjects) {
                let loss = if *how == "killed" { rot::Loss::Reported } else { rot::Loss::None };
                self.rot_list(image, history, subject, loss).map_err(|fault| fault.at(format!("the {how} store")))?;
            }
        }
        Ok(())
    }

    /// Flips a bit of the list of segments, and then of something else, too: right behind it, anywhere, or all of the header of a segment
    /// that stands in front of it.
    fn rot_list(&mut self, image: &CrashImage, history: &History, subject: &rot::Subject, loss: rot::Loss) -> Result<(), Fault> {
        let bytes = image.to_vec();
        let Some(list) = forge::list_frame(&bytes) else { return Ok(()) };
        let listed: Vec<usize> = forge::listed_headers(&bytes);
        for more in 0..4 {
            let rotten = image.fork();
            let flip = |rng: &mut Rng, place: std::ops::Range<usize>| {
                let at = place.start as u64 + rng.below((place.end - place.start) as u64);
                rotten.flip_bit(at, index(rng, 8) as u32);
                at
            };
            let at = flip(&mut self.rng, list.clone());
            let also = match more {
                0 => 0,
                1 => flip(&mut self.rng, list.end..(list.end + 60).min(bytes.len())),
                2 => flip(&mut self.rng, 0..bytes.len()),
                _ => {
                    let Some(&at) = listed.get(index(&mut self.rng, listed.len().max(1))) else { break };
                    rotten.write_at(at as u64, &[&[0; HEADER_LEN]]).map_err(pipkin::Error::from)?;
                    at as u64
                }
            };
            let then = choose(&mut self.rng, &rot::Then::ALL);
            let (entropy, again) = (self.entropy(), self.entropy());
            self.watch.tick();
            self.count_image();
            self.counts.rotten.fetch_add(1, Ordering::Relaxed);
            if more == 0 {
                self.counts.lists.fetch_add(1, Ordering::Relaxed);
                let disk = Disk::from_image(&rotten);
                let opened = self.setup.open(disk.storage(), again);
                let is_right = match &opened {
                    Ok(_) => check_by_reader(&rotten, history.now()),
                    Err(_) if pipkin_reader::read(&rotten.to_vec()).is_ok() => {
                        Fault::wrong("what the engine refuses, pipkin-reader reads")
                    }
                    Err(_) => Ok(()),
                };
                is_right.map_err(|fault| fault.at(format!("bit flipped at {at} in the list of segments")))?;
                self.counts
                    .unlisted
                    .fetch_add(u64::from(opened.is_ok_and(|db| db.open_report().damaged_list)), Ordering::Relaxed);
                disk.kill();
            }
            subject.look(&rotten, loss, then, entropy).map_err(|fault| {
                fault.at(format!("bits flipped at {at} in the list of segments and at {also} (kind {more}), then {then:?}"))
            })?;
        }
        Ok(())
    }

    /// The killed store after a session that ends behind a flush, with or without writes in front of it, by a kill.
    fn flush_and_kill(&mut self, killed: &CrashImage, history: &History, puts: u64) -> Result<(CrashImage, History), Fault> {
        let disk = Disk::from_image(killed);
        let host = DiskHost::new(disk.clone(), self.setup.clone(), self.entropy());
        let mut player = Player::open(host, history.now().clone())?;
        for _ in 0..puts {
            self.tag += 1;
            let (key, len) = (self.rng.below(30) as u16, self.rng.below(900) as u32);
            player.play(&Op::Put(0, key, Val { len, tag: self.tag }))?;
        }
        player.play(&Op::Flush)?;
        disk.kill();
        Ok((disk.image(), player.history.clone()))
    }
}
