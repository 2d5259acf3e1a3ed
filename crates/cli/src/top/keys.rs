//! Keys of `shoal top`, and their meaning.

use super::state::{ScreenState, View};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Keys with their meaning, for the help.
pub const HELP: [(&str, &str); 7] = [
    ("1 2 3 4", "views; also Tab and the arrows left and right"),
    ("s", "next order of the table"),
    ("↑ ↓ j k", "scroll the table; also Page up, Page down, Home"),
    ("space, p", "pause: the numbers stay"),
    ("r", "ask at once"),
    ("?", "this help"),
    ("q, Esc", "end"),
];

/// Consequence of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// The screen changes.
    Redraw,
    /// The screen changes, and the node is to be asked at once.
    Ask,
    /// Nothing.
    Nothing,
    /// The command ends.
    End,
}

/// Changes the state by a key. A question ends a pause.
pub fn press(state: &mut ScreenState, key: KeyEvent) -> KeyEffect {
    let effect = pressed(state, key);
    if effect == KeyEffect::Ask {
        state.is_paused = false;
    }
    effect
}

fn pressed(state: &mut ScreenState, key: KeyEvent) -> KeyEffect {
    if key.kind == KeyEventKind::Release {
        return KeyEffect::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if matches!(key.code, KeyCode::Char('c' | 'd')) {
            KeyEffect::End
        } else {
            KeyEffect::Nothing
        };
    }
    if state.shows_help && !matches!(key.code, KeyCode::Char('q')) {
        state.shows_help = false;
        return KeyEffect::Redraw;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return KeyEffect::End,
        KeyCode::Char('?' | 'h') => state.shows_help = true,
        KeyCode::Char(' ' | 'p') => {
            state.is_paused = !state.is_paused;
            return if state.is_paused { KeyEffect::Redraw } else { KeyEffect::Ask };
        }
        KeyCode::Char('r') => return KeyEffect::Ask,
        KeyCode::Char('s') => {
            state.sortings[state.view as usize] = state.sorting().next();
            state.scroll = 0;
            return KeyEffect::Ask;
        }
        KeyCode::Char(digit @ '1'..='4') => return go(state, digit as usize - '1' as usize),
        KeyCode::Tab | KeyCode::Right => return go(state, state.view as usize + 1),
        KeyCode::BackTab | KeyCode::Left => return go(state, state.view as usize + View::ALL.len() - 1),
        KeyCode::Up | KeyCode::Char('k') => state.scroll = state.scroll.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => state.scroll += 1,
        KeyCode::PageUp => state.scroll = state.scroll.saturating_sub(PAGE),
        KeyCode::PageDown => state.scroll += PAGE,
        KeyCode::Home => state.scroll = 0,
        _ => return KeyEffect::Nothing,
    }
    // No table has more rows than a document.
    state.scroll = state.scroll.min(shoal_dashboard::documents::ROWS_MAX);
    debug_assert!(state.sortings.len() == View::ALL.len(), "an order for each view");
    KeyEffect::Redraw
}

fn go(state: &mut ScreenState, number: usize) -> KeyEffect {
    state.go(View::ALL[number % View::ALL.len()]);
    KeyEffect::Ask
}

/// Rows of a page.
const PAGE: usize = 10;

#[cfg(test)]
mod tests {
    use super::super::state::RowOrder;
    use super::*;

    fn state() -> ScreenState {
        ScreenState::new("a".into(), View::Now, None)
    }

    fn hit(state: &mut ScreenState, code: KeyCode) -> KeyEffect {
        press(state, KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn views_go_round() {
        let mut state = state();
        for (code, view) in [
            (KeyCode::Char('4'), View::Objects),
            (KeyCode::Tab, View::Now),
            (KeyCode::Left, View::Objects),
            (KeyCode::BackTab, View::Origins),
            (KeyCode::Char('2'), View::Reasons),
            (KeyCode::Right, View::Origins),
        ] {
            assert_eq!(hit(&mut state, code), KeyEffect::Ask, "{code:?}");
            assert_eq!(state.view, view, "{code:?}");
        }
    }

    #[test]
    fn orders_are_kept_for_each_view() {
        let mut state = state();
        hit(&mut state, KeyCode::Char('s'));
        hit(&mut state, KeyCode::Char('4'));
        assert_eq!(state.sorting(), RowOrder::Requests);
        hit(&mut state, KeyCode::Char('1'));
        assert_eq!(state.sorting(), RowOrder::Bytes);
        (0..2).for_each(|_| assert_eq!(hit(&mut state, KeyCode::Char('s')), KeyEffect::Ask));
        assert_eq!(state.sorting(), RowOrder::Requests);
    }

    #[test]
    fn scrolling_has_ends() {
        let mut state = state();
        hit(&mut state, KeyCode::Up);
        assert_eq!(state.scroll, 0);
        (0..100).for_each(|_| assert_eq!(hit(&mut state, KeyCode::PageDown), KeyEffect::Redraw));
        assert_eq!(state.scroll, shoal_dashboard::documents::ROWS_MAX);
        hit(&mut state, KeyCode::Tab);
        assert_eq!(state.scroll, 0);
    }

    #[test]
    fn pause_help_and_end_have_keys() {
        let mut state = state();
        assert_eq!((hit(&mut state, KeyCode::Char('p')), state.is_paused), (KeyEffect::Redraw, true));
        assert_eq!((hit(&mut state, KeyCode::Char(' ')), state.is_paused), (KeyEffect::Ask, false));
        hit(&mut state, KeyCode::Char('?'));
        assert!(state.shows_help);
        assert_eq!((hit(&mut state, KeyCode::Esc), state.shows_help), (KeyEffect::Redraw, false));
        assert_eq!(hit(&mut state, KeyCode::Esc), KeyEffect::End);
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!(press(&mut state, control('c')), KeyEffect::End);
        assert_eq!(press(&mut state, control('s')), KeyEffect::Nothing);
    }
}
