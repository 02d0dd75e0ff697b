/// Bytes as choices and numbers. When they have run out, all that comes is 0.
#[derive(Debug)]
pub(crate) struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `count`, which is 1 to 256.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// A number: one of those at which something changes, a small one, or any.
    pub(crate) fn number(&mut self, telling: &[u64]) -> u64 {
        let choice = usize::from(self.byte());
        match telling.get(choice) {
            Some(number) => *number,
            None if choice < 128 => u64::from(self.byte()),
            None => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }
}
