//! Proves of all intervals at once that a limit was kept.
//!
//! A token bucket is kept if for all a < b the hits that were sent after a and answered before b are at most
//! burst + rate · (b − a). An admission was decided at some time between those two, and only what was certainly decided
//! within an interval counts against it.
//!
//! A fixed window is the same with windows in the place of microseconds: from window a to window b at most
//! amount · (b − a + 1) hits are admitted, that is a burst of one amount and one amount more for each further window.

/// Hits that were admitted at some time between these two, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) hits: u64,
}

/// In an interval of length T, `burst + amount · T / period` hits are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) burst: u64,
    pub(super) amount: u64,
    pub(super) period: u64,
}

/// The interval in which most was admitted, compared with what was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Worst {
    /// By how much it was too much, in hits times the period, which is a whole number; not above 0 if all is well.
    pub(super) over: i128,
    pub(super) period: u64,
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Worst {
    pub(super) fn is_excess(&self) -> bool {
        self.over > 0
    }

    /// By how many hits it was too much, to be read by people.
    #[expect(clippy::cast_precision_loss, reason = "a number to be read")]
    pub(super) fn hits_over(&self) -> f64 {
        self.over as f64 / self.period as f64
    }
}

/// Finds the worst interval. `None` if nothing was admitted.
///
/// Only intervals matter that begin where an admission begins and end where one ends. Their ends are visited in order;
/// for each possible beginning a the tree holds what was admitted since a and has ended by now, plus what a later
/// beginning loses of the allowance. The largest of them all is at its root. That is n · log n steps for n² intervals.
pub(super) fn worst_interval(admissions: &[Admission], allowance: Allowance) -> Option<Worst> {
    let Allowance { burst, amount, period } = allowance;
    let (amount, scale) = (i128::from(amount), i128::from(period));

    let mut by_beginning = admissions.to_vec();
    by_beginning.sort_by_key(|admission| admission.from);
    let mut by_end: Vec<_> = by_beginning.iter().enumerate().collect();
    by_end.sort_by_key(|(_, admission)| admission.until);

    let mut beginnings = Beginnings::new(by_beginning.len());
    let mut worst: Option<Worst> = None;
    for (place, &Admission { from, until, hits }) in by_end {
        beginnings.add(place, i128::from(hits) * scale, amount * i128::from(from));
        let (most, beginning) = beginnings.most();
        let over = most - amount * i128::from(until) - i128::from(burst) * scale;
        if worst.is_none_or(|worst| over > worst.over) {
            worst = Some(Worst { over, period, from: by_beginning[beginning].from, until });
        }
    }
    worst
}

/// A tree over the admissions in the order in which they begin. Those that have not ended yet are not in it.
struct Beginnings {
    nodes: Vec<Node>,
    leaves: usize,
}

/// Some admissions beside each other.
#[derive(Clone, Copy)]
struct Node {
    /// Of all of them.
    hits: i128,
    /// The most that one of them has as a beginning: its own height, and the hits from it to the last of the node.
    most: i128,
    /// Which of them that is.
    beginning: usize,
}

impl Node {
    /// Far below every height, and far from overflowing.
    const EMPTY: Self = Self { hits: 0, most: i128::MIN / 4, beginning: 0 };

    fn beside(self, right: Self) -> Self {
        let left_most = self.most + right.hits;
        let (most, beginning) =
            if left_most >= right.most { (left_most, self.beginning) } else { (right.most, right.beginning) };
        Self { hits: self.hits + right.hits, most, beginning }
    }
}

impl Beginnings {
    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { nodes: vec![Node::EMPTY; 2 * leaves], leaves }
    }

    fn add(&mut self, place: usize, hits: i128, height: i128) {
        let mut index = self.leaves + place;
        self.nodes[index] = Node { hits, most: height + hits, beginning: place };
        while index > 1 {
            index /= 2;
            self.nodes[index] = self.nodes[2 * index].beside(self.nodes[2 * index + 1]);
        }
    }

    fn most(&self) -> (i128, usize) {
        (self.nodes[1].most, self.nodes[1].beginning)
    }
}
