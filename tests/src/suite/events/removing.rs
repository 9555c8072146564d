//! What removes events, in the store and in the model alike.

use super::model::{OLD, STREAMS};
use super::steps::{Player, Step, Stop};
use crate::rng::{Choices, choose};
use pipkin::{Events, Retention};
use std::time::Duration;

/// Far longer than a test takes, and far shorter than since 1970.
const AGE: Duration = Duration::from_secs(86_400);

impl Player {
    /// Removes events of a stream, some or all.
    pub(super) fn remove_of_stream(&mut self) -> Step {
        let (log, stream) = (self.rng.below(2) as usize, choose(&mut self.rng, &STREAMS));
        let version = self.model.version(log, stream);
        let before = match self.rng.below(3) {
            0 => u64::MAX,
            _ => 1 + self.rng.below(version + 2),
        };
        let versions = self.model.versions();
        let wanted = self.model.there(self.model.now(), |event| event.log == log && event.stream == stream);
        let below = wanted.into_iter().filter(|number| versions[*number as usize - 1] < before).collect();
        let keeps = (version + 1).saturating_sub(before);
        let by_count = before <= version + 1 && self.rng.chance(1, 2);
        self.remove(log, below, |events| match before {
            u64::MAX => events.delete_stream(stream),
            _ if by_count => events.keep_last(stream, keeps),
            _ => events.truncate(stream, before),
        })
    }

    /// Removes the oldest events of a log.
    pub(super) fn remove_before(&mut self) -> Step {
        let log = self.rng.below(2) as usize;
        let time = choose(&mut self.rng, &[OLD / 2, OLD, (1 << 47) + (1 << 46), (1 << 48) - (1 << 44)]);
        let there = self.model.there(self.model.now(), |event| event.log == log);
        let oldest = there.into_iter().take_while(|number| self.model.happened[*number as usize - 1].time < time).collect();
        self.remove(log, oldest, |events| events.remove_before_ms(time))
    }

    fn remove(&mut self, log: usize, numbers: Vec<u64>, run: impl FnOnce(&Events) -> pipkin::Result<u64>) -> Step {
        let states = self.model.without(self.model.now(), &numbers);
        let may_go_meanwhile = !self.model.now().keeps_all();
        let removed = self.commits(states, |player| run(&player.logs[log]))?;
        let count = numbers.len() as u64;
        if removed == count || may_go_meanwhile && removed < count {
            return Ok(());
        }
        Err(Stop::Wrong(format!("{removed} events were removed, and should {numbers:?}")))
    }

    pub(super) fn set_retention(&mut self) -> Step {
        let log = self.rng.below(2) as usize;
        let most = 1 + self.rng.below(40);
        let kept = match self.rng.below(5) {
            0 => Retention::new().max_events(most),
            1 => Retention::new().max_age(AGE),
            2 => Retention::new().max_events(most).max_age(AGE),
            _ => Retention::new(),
        };
        self.commit(Vec::new(), |state| state.set_kept(log, kept), |player| player.logs[log].set_retention(kept))
    }

    /// Removes all that the logs need not keep.
    pub(super) fn retain(&mut self) -> Step {
        for log in 0..2 {
            self.commits(Vec::new(), |player| player.logs[log].retain())?;
            let left = self.model.let_go(self.model.now(), log);
            if !left.is_empty() {
                return Err(Stop::Wrong(format!("all that need not be kept was removed, and {left:?} are there")));
            }
        }
        Ok(())
    }
}
