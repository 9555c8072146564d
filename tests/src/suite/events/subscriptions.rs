//! Subscriptions, which hand out each event of the model once, in order: with a cursor that moves in the commit of a projection, and without.

use super::answers::differs;
use super::model::{CURSOR, Happened, PROJECTED, Query, State, version};
use super::steps::{Follower, Player, Step, Stop};
use crate::rng::Choices;
use pipkin::{Error, Expected};

impl Player {
    /// The next event of a follower, compared with what has to come next.
    fn next(&self, follower: &mut Follower, log: usize, wanted: &Query) -> Step<Option<u64>> {
        let Some(event) = follower.subscription.try_next()? else { return Ok(None) };
        let now = self.model.now();
        let own =
            |(number, happened): &(u64, &Happened)| happened.log == log && !now.is_gone(*number) && wanted.matches(happened);
        let mut behind = (1..).zip(&self.model.happened).filter(own).skip_while(|(number, _)| *number <= follower.passed);
        let Some((number, happened)) = behind.next().filter(|(number, _)| *number == event.number()) else {
            return Err(Stop::Wrong(format!("{event:?} is handed out behind event {}", follower.passed)));
        };
        let version = version(&self.model.happened[..number as usize], log, happened.stream);
        differs(&event, happened, version).map_or(Ok(()), Err)?;
        // What was handed out is not lost.
        self.watched.durable(self.model.commits_to(number));
        follower.passed = number;
        Ok(Some(number))
    }

    /// Events lead to a record, in one commit with the cursor, and with another event now and then.
    pub(super) fn project(&mut self) -> Step {
        if self.projector.is_none() {
            return self.take();
        }
        let Some(mut projector) = self.projector.take() else { return Ok(()) };
        for _ in 0..1 + self.rng.below(6) {
            let Some(number) = self.next(&mut projector, 0, &self.setup.wanted)? else { break };
            let set_cursor = |state: &mut State| state.set_cursor(number);
            match self.rng.below(6) {
                0 => {}
                1 => self.commit(Vec::new(), set_cursor, |_| projector.subscription.ack(number))?,
                choice => {
                    let audit = Happened::choose(&mut self.rng, 1, "0", true);
                    let audits: Vec<_> = (choice == 2).then_some(audit).into_iter().collect();
                    let new: Vec<_> = audits.iter().map(Happened::new_event).collect();
                    let change = |state: &mut State| {
                        state.records.insert(PROJECTED.into(), number.to_le_bytes().into());
                        state.set_cursor(number);
                    };
                    self.commit(audits, change, |player| {
                        player.db.transaction(|tx| {
                            tx.insert(PROJECTED, number.to_le_bytes())?;
                            if !new.is_empty() {
                                tx.append(&player.logs[1], "0", Expected::Any, new.iter().cloned())?;
                            }
                            tx.ack(&projector.subscription, number)
                        })
                    })?;
                }
            }
        }
        self.projector = Some(projector);
        Ok(())
    }

    /// Another subscription begins with the cursor.
    pub(super) fn take(&mut self) -> Step {
        let cursor = self.model.now().cursor();
        let old = self.projector.take();
        if cursor.is_some() && self.rng.chance(1, 20) {
            self.commit(Vec::new(), |state| state.cursors.clear(), |player| player.logs[0].remove_cursor(CURSOR).map(drop))?;
        } else {
            let wanted = self.setup.wanted.condition();
            let passed = cursor.unwrap_or(0);
            let begin = |state: &mut State| state.set_cursor(passed);
            let subscription = self.commit(Vec::new(), begin, |player| player.logs[0].matching(&wanted).cursor(CURSOR))?;
            self.projector = Some(Follower { subscription, passed });
        }
        match old.map(|old| old.subscription.ack(old.passed)) {
            None | Some(Err(Error::CursorTaken)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(())) => Err(Stop::Wrong("a subscription moves the cursor that another one has taken over".into())),
        }
    }

    /// A subscription without a cursor. `whole`: it has to come to the end.
    pub(super) fn watch(&mut self, whole: bool) -> Step {
        let Some(mut watcher) = self.watcher.take() else {
            let passed = self.rng.below(self.next_number());
            let subscription = self.logs[0].all().from(passed + 1).follow()?;
            self.watcher = Some(Follower { subscription, passed });
            return Ok(());
        };
        while self.next(&mut watcher, 0, &Query::all())?.is_some() {}
        let mut left = self.model.there(self.model.now(), |event| event.log == 0);
        left.retain(|&number| number > watcher.passed);
        if whole && !left.is_empty() {
            return Err(Stop::Wrong(format!("all is flushed, and {left:?} are not handed out")));
        }
        if self.rng.chance(3, 4) {
            self.watcher = Some(watcher);
        }
        Ok(())
    }
}
