//! Why a search ended without an answer.

/// Why a search stopped: which part of the budget was used up, or that the caller was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Steps,
    Memory,
    Deadline,
    Interrupted,
    /// Two looks at the same operations contradict each other: a defect of this core, which says nothing about them.
    Contradicted,
}

impl Stop {
    /// Its name in Python (`Stop` in harness/verdict/__init__.py), which stays the same.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Memory => "memory",
            Self::Deadline => "deadline",
            Self::Interrupted => "interrupted",
            Self::Contradicted => "contradicted",
        }
    }

    /// Why there is no answer, in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Steps => "the budget of steps is spent",
            Self::Memory => "the memory budget is spent",
            Self::Deadline => "the time limit of the search has passed",
            Self::Interrupted => "the search was interrupted",
            Self::Contradicted => {
                "the native search and the check of its answer contradict each other, a defect of fencepost"
            }
        }
    }
}
