//! The live screen: the terminal is taken, drawn, and given back at each end, also by a signal or a
//! panic.

use super::keys::{KeyEffect, press};
use super::poll::Poller;
use super::screen::draw;
use super::state::ScreenState;
use crate::admin_client::AdminNode;
use crate::failure::Failure;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use std::io::{self, Stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Shows the node until a key or a signal ends it.
pub fn watch(node: AdminNode, state: ScreenState, interval: Duration) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Runtime(format!("the terminal cannot be used: {error}"));
    let is_over = on_signals().map_err(failed)?;
    let poller = Poller::start(node, state.question(), interval)?;
    give_back_at_panic();
    let taken = TakenTerminal::take().map_err(failed)?;
    let ended = show(state, &poller, &is_over);
    drop(taken);
    ended.map_err(failed)
}

fn show(mut state: ScreenState, poller: &Poller, is_over: &AtomicBool) -> io::Result<()> {
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let mut is_changed = true;
    while !is_over.load(Relaxed) {
        if poller.has_ended() {
            return Err(io::Error::other("the thread that asks the node has failed"));
        }
        if is_changed {
            terminal.draw(|frame| draw(&state, frame.buffer_mut()))?;
        }
        is_changed = handle_key(&mut state, poller, &mut terminal)?.unwrap_or_else(|| {
            is_over.store(true, Relaxed);
            false
        });
        match poller.take() {
            Some(_) if state.is_paused => {}
            Some(Ok(answer)) => {
                state.take(answer);
                is_changed = true;
            }
            Some(Err(why)) => {
                state.trouble = Some(why);
                is_changed = true;
            }
            None => {}
        }
    }
    Ok(())
}

/// Waits a moment for a key. Returns `true` if the screen is to be drawn, `None` at the end.
fn handle_key(
    state: &mut ScreenState,
    poller: &Poller,
    terminal: &mut Terminal<CrosstermBackend<Stdout>>,
) -> io::Result<Option<bool>> {
    if !event::poll(TICK)? {
        return Ok(Some(false));
    }
    Ok(Some(match event::read()? {
        Event::Key(key) => match press(state, key) {
            KeyEffect::End => return Ok(None),
            KeyEffect::Nothing => false,
            KeyEffect::Ask => {
                poller.ask(Some(state.question()));
                true
            }
            KeyEffect::Redraw => {
                if state.is_paused {
                    poller.ask(None);
                }
                true
            }
        },
        Event::Resize(..) => {
            terminal.clear()?;
            true
        }
        _ => false,
    }))
}

/// A terminal in raw mode with its other screen. Dropping it gives the terminal back.
struct TakenTerminal;

impl TakenTerminal {
    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        let taken = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(taken)
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back; a second time does no harm.
fn give_back() {
    // A terminal that is gone needs nothing back.
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Gives the terminal back before a panic prints its message.
fn give_back_at_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

/// Returns a flag that TERM, HUP, INT and QUIT set.
fn on_signals() -> io::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let context = runtime.enter();
    let mut streams = kinds.into_iter().map(signal).collect::<io::Result<Vec<_>>>()?;
    drop(context);
    let flag = Arc::clone(&is_over);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(std::future::poll_fn(|context| {
            match streams.iter_mut().any(|stream| stream.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        flag.store(true, Relaxed);
    })?;
    Ok(is_over)
}

/// Longest wait for a key, before answers and signals are looked for.
const TICK: Duration = Duration::from_millis(100);
