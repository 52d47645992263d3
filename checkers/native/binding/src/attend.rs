//! Run native work while Python still handles signals, such as Ctrl-C.

use std::cell::RefCell;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use limits::{Deadline, Defect, catch};

use limits::interrupt::{LOOK_EVERY, attending};

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Do `work` with the interpreter's lock released, with a deadline in `wall_s` seconds.
///
/// If a signal's handler raises (Ctrl-C), the deadline passes at once, and the exception is raised when the work has
/// ended. Work that is `alone` uses one thread. It stays on this one, which then checks for signals itself: another
/// thread would cost more than a short search.
pub fn attend<T: Send>(
    py: Python<'_>,
    wall_s: f64,
    alone: bool,
    work: impl FnOnce(Deadline) -> T + Send,
) -> PyResult<T> {
    let wall = Duration::try_from_secs_f64(wall_s).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let deadline = Instant::now()
        .checked_add(wall)
        .ok_or_else(|| PyValueError::new_err(format!("wall_s {wall_s} is too long")))?;
    let deadline = Deadline::new(deadline);
    if alone {
        let result = py.detach(|| safely(|| attending(look, || work(deadline))));
        return RAISED.take().map_or(result, Err);
    }
    py.detach(|| {
        thread::scope(|scope| {
            let (done, finished) = channel::<()>();
            let worker = scope.spawn(move || {
                let _at_the_end = done;
                safely(|| work(deadline))
            });
            let mut raised = Ok(());
            while raised.is_ok() && finished.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                raised = Python::attach(|py| py.check_signals());
            }
            if raised.is_err() {
                deadline.interrupt();
            }
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            raised.and(result)
        })
    })
}

/// Do `work`. A panic becomes a RuntimeError: it is a defect, and says nothing about the input.
pub fn safely<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch(work).map_err(raise_defect)
}

/// Return the Python exception for a defect.
pub fn raise_defect(defect: Defect) -> PyErr {
    PyRuntimeError::new_err(defect.0)
}

fn look() -> bool {
    let raised = Python::attach(|py| py.check_signals()).err();
    let calm = raised.is_none();
    if !calm {
        RAISED.set(raised);
    }
    calm
}
