//! Slots into which the mapped file has been cut, their owners, and the choice of a victim.
//!
//! A *slot* is a stretch that has been given out as a segment. A slot keeps its size for good: "an
//! object can replace another object of the same segment size only" (Maltzahn 1999, 3.3). While the
//! file is not full, new objects get new slots in order of arrival, which is the order of first
//! miss. After that they get a released slot, and then the slot of a victim of the replacement
//! policy.
//!
//! All of this is in RAM: 12 bytes a slot, and the policy's state. After opening, the slots are
//! rebuilt from the index's side words, a piece at a time ([`Slots::survey`]). Until the survey
//! ends no slot is given out, and small objects go into files of their own.

use super::place::{SegmentLocation, UNIT_BYTES};
use super::replacement::SegmentReplacement;
use shoal_policy::{SegmentClass, SegmentLayout};

/// Slots of one mapped file. See the module's head.
pub(super) struct Slots {
    file_bytes: u64,
    placement: Box<dyn SegmentLayout>,
    classes: [Class; SegmentClass::ALL.len()],
    /// Slot within its class, by object number.
    slot_of: Vec<u32>,
    policy: Box<dyn SegmentReplacement>,
    survey: Option<Survey>,
}

/// Slots of one size, in the order in which they were cut.
#[derive(Default)]
struct Class {
    slots: Vec<Slot>,
    /// Slots without an owner.
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Slot {
    unit: u32,
    owner: Owner,
}

/// Owner of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// Open insert.
    Insert,
    /// Object of this number.
    Number(u32),
}

/// Slot that an insert holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::architectures) struct ClaimedSlot {
    pub(in crate::architectures) place: SegmentLocation,
    slot: u32,
}

/// Outcome of a request for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotOffer {
    /// The slot is the caller's.
    Taken(ClaimedSlot),
    /// The object of this number has to be evicted; [`Slots::take`] then gives its slot.
    Victim(u32, ClaimedSlot),
    /// No slot of this size is available.
    Nothing,
}

/// Entries of the index read so far about the slots of earlier sessions.
#[derive(Default)]
struct Survey {
    next_number: u32,
    found: Vec<SurveyedSlot>,
}

/// Object in a segment, as the index has it.
#[derive(Clone, Copy)]
pub(super) struct SurveyedSlot {
    pub(super) place: SegmentLocation,
    pub(super) number: u32,
    /// Note of the replacement policy at the last orderly close.
    pub(super) note: u32,
}

impl Slots {
    /// Makes the slots of a file of `file_bytes` bytes. An empty file is still to be cut; any other
    /// file is surveyed first.
    pub(super) fn new(
        file_bytes: u64,
        placement: Box<dyn SegmentLayout>,
        policy: Box<dyn SegmentReplacement>,
        is_empty: bool,
    ) -> Self {
        let survey = (!is_empty).then(Survey::default);
        Self { file_bytes, placement, classes: Default::default(), slot_of: Vec::new(), policy, survey }
    }

    /// Offers a slot. `may_go` tells whether a number's object may be evicted now, `is_resident`
    /// whether the page at an offset is in memory.
    pub(super) fn offer(
        &mut self,
        class: SegmentClass,
        mut may_go: impl FnMut(u32) -> bool,
        is_resident: impl Fn(u64) -> bool,
    ) -> SlotOffer {
        if self.survey.is_some() {
            return SlotOffer::Nothing;
        }
        if let Some(place) = self.cut(class) {
            return SlotOffer::Taken(ClaimedSlot { place, slot: self.add(place, Owner::Insert) });
        }
        if let Some(slot) = self.class(class).free.pop() {
            let taken = self.taken(class, slot);
            self.slot(taken).owner = Owner::Insert;
            return SlotOffer::Taken(taken);
        }
        let slots = &self.classes[class.index()].slots;
        let owner_may_go = &mut |slot: u32| match slots[slot as usize].owner {
            Owner::Number(number) => may_go(number),
            Owner::Nobody | Owner::Insert => false,
        };
        let slot_is_resident =
            &mut |slot: u32| is_resident(u64::from(slots[slot as usize].unit) * UNIT_BYTES);
        let Some(slot) = self.policy.victim(class, owner_may_go, slot_is_resident) else {
            return SlotOffer::Nothing;
        };
        match slots[slot as usize].owner {
            Owner::Number(number) => SlotOffer::Victim(number, self.taken(class, slot)),
            Owner::Nobody | Owner::Insert => SlotOffer::Nothing,
        }
    }

    /// Gives the victim's slot to the insert that was offered it. Returns `false` if the victim has
    /// lost the slot meanwhile.
    pub(super) fn take(&mut self, victim: u32, taken: ClaimedSlot) -> bool {
        let slot = self.slot(taken);
        if slot.owner != Owner::Number(victim) {
            return false;
        }
        slot.owner = Owner::Insert;
        self.policy.emptied(taken.place.class, taken.slot);
        true
    }

    /// Gives the insert's slot to the number under which its object becomes visible.
    pub(super) fn own(&mut self, taken: ClaimedSlot, number: u32) {
        self.slot(taken).owner = Owner::Number(number);
        self.note_slot(number, taken.slot);
        self.policy.filled(taken.place.class, taken.slot);
    }

    /// Takes back the slot of an abandoned insert, which may already have its number.
    pub(super) fn give_back(&mut self, taken: ClaimedSlot, number: u32) {
        match self.slot(taken).owner {
            Owner::Insert => self.empty(taken),
            Owner::Number(owner) if owner == number => self.release(number, taken.place),
            Owner::Number(_) | Owner::Nobody => {}
        }
    }

    fn empty(&mut self, taken: ClaimedSlot) {
        self.slot(taken).owner = Owner::Nobody;
        self.class(taken.place.class).free.push(taken.slot);
    }

    /// Records a hit on the object of this number.
    pub(super) fn hit(&mut self, number: u32, place: SegmentLocation) {
        if let Some(taken) = self.of(number, place) {
            self.policy.hit(place.class, taken.slot);
        }
    }

    /// Records that the object of this number is gone.
    pub(super) fn release(&mut self, number: u32, place: SegmentLocation) {
        if let Some(survey) = &mut self.survey {
            survey.found.retain(|found| (found.place, found.number) != (place, number));
        }
        if let Some(taken) = self.of(number, place) {
            self.policy.emptied(place.class, taken.slot);
            self.empty(taken);
        }
    }

    /// Returns the number at which the survey continues. Returns `None` when the survey is
    /// complete.
    pub(super) fn survey_from(&self) -> Option<u32> {
        self.survey.as_ref().map(|survey| survey.next_number)
    }

    /// Records the objects in segments among the numbers up to `end`; `last` completes the survey.
    /// Returns the objects that overlap with another's place: only one of the two can be there, so
    /// they must go.
    pub(super) fn survey(&mut self, found: &[SurveyedSlot], end: u32, last: bool) -> Vec<u32> {
        let Some(survey) = &mut self.survey else { return Vec::new() };
        survey.found.extend_from_slice(found);
        survey.next_number = end;
        if !last {
            return Vec::new();
        }
        let mut all = std::mem::take(&mut survey.found);
        self.survey = None;
        self.lay_out(&mut all)
    }

    /// Passes to `keep` the number, the place and the policy's note of each object in a slot.
    pub(super) fn notes(&self, mut keep: impl FnMut(u32, SegmentLocation, u32)) {
        self.policy.notes(&mut |class, slot, note| {
            let Slot { unit, owner } = self.classes[class.index()].slots[slot as usize];
            if let Owner::Number(number) = owner {
                keep(number, SegmentLocation { unit, class }, note);
            }
        });
    }

    /// Makes the slots of earlier sessions, and free slots between them.
    fn lay_out(&mut self, found: &mut [SurveyedSlot]) -> Vec<u32> {
        found.sort_unstable_by_key(|found| found.place.unit);
        let (mut end, mut misfits, mut objects) = (0, Vec::new(), Vec::new());
        for SurveyedSlot { place, number, note } in found.iter().copied() {
            if place.offset() < end || place.end() > self.file_bytes {
                misfits.push(number);
                continue;
            }
            self.lay_out_gap(end, place.offset());
            let slot = self.add(place, Owner::Number(number));
            self.note_slot(number, slot);
            objects.push((place.class, slot, note));
            end = place.end();
        }
        self.placement.resume(end);
        self.lay_out_gap(end, self.placement.end().min(self.file_bytes));
        self.policy.restore(&objects);
        misfits
    }

    /// Cuts a gap into the largest slots that fit and lie at multiples of their size, as the packer
    /// does.
    fn lay_out_gap(&mut self, mut from: u64, to: u64) {
        while from < to {
            let fits =
                |class: &&SegmentClass| from.is_multiple_of(class.bytes()) && from + class.bytes() <= to;
            let Some(class) = SegmentClass::ALL.iter().rev().find(fits) else { return };
            let Some(place) = SegmentLocation::at(from, *class) else { return };
            let slot = self.add(place, Owner::Nobody);
            self.class(*class).free.push(slot);
            from += class.bytes();
        }
    }

    fn add(&mut self, place: SegmentLocation, owner: Owner) -> u32 {
        let slots = &mut self.class(place.class).slots;
        let slot = slots.len() as u32;
        slots.push(Slot { unit: place.unit, owner });
        self.policy.cut(place.class, slot, place.offset());
        slot
    }

    /// Returns the next stretch of the file, if any is left.
    fn cut(&mut self, class: SegmentClass) -> Option<SegmentLocation> {
        SegmentLocation::at(self.placement.place_within(class, self.file_bytes)?, class)
    }

    fn note_slot(&mut self, number: u32, slot: u32) {
        let at = number as usize;
        if self.slot_of.len() <= at {
            self.slot_of.resize(at + 1, 0);
        }
        self.slot_of[at] = slot;
    }

    /// Returns the slot of an object, if it owns the slot at `place`.
    fn of(&mut self, number: u32, place: SegmentLocation) -> Option<ClaimedSlot> {
        let slot = *self.slot_of.get(number as usize)?;
        let found = self.class(place.class).slots.get(slot as usize)?;
        (found.owner == Owner::Number(number) && found.unit == place.unit)
            .then_some(ClaimedSlot { place, slot })
    }

    fn taken(&self, class: SegmentClass, slot: u32) -> ClaimedSlot {
        let unit = self.classes[class.index()].slots[slot as usize].unit;
        ClaimedSlot { place: SegmentLocation { unit, class }, slot }
    }

    fn slot(&mut self, taken: ClaimedSlot) -> &mut Slot {
        &mut self.classes[taken.place.class.index()].slots[taken.slot as usize]
    }

    fn class(&mut self, class: SegmentClass) -> &mut Class {
        &mut self.classes[class.index()]
    }
}

const _: () = assert!(UNIT_BYTES == SegmentClass::ALL[0].bytes());
