//! The screen: hash rate, shares, backends with their workers, the log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};

use crate::board::{Board, Level, State};
use crate::ui::text;

/// Where keys come from.
pub trait Keys {
    /// Waits for so long; `true` when somebody asks for the end.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    fn wants_end(&mut self, wait: Duration) -> io::Result<bool>;
}

/// The keys of this process's terminal: `q`, Escape and Ctrl-C ask for the end.
#[derive(Debug, Default)]
pub struct TerminalKeys;

impl Keys for TerminalKeys {
    fn wants_end(&mut self, wait: Duration) -> io::Result<bool> {
        if !event::poll(wait)? {
            return Ok(false);
        }
        let Event::Key(key) = event::read()? else { return Ok(false) };
        let control_c =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        let ends = control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
        Ok(ends && key.kind != KeyEventKind::Release)
    }
}

/// The screen of a miner.
#[derive(Debug)]
pub struct Screen {
    board: Arc<Board>,
    /// Hash rates, a second apart, newest last.
    history: Vec<u64>,
    frames: u32,
}

impl Screen {
    /// A screen of the board.
    pub fn new(board: Arc<Board>) -> Self {
        Self { board, history: Vec::new(), frames: 0 }
    }

    /// Draws on the terminal of this process until `end` is set or a key asks for the end.
    /// `true` after a key. The terminal is restored then, also after a panic.
    ///
    /// # Errors
    /// When there is no terminal, or it cannot be used.
    pub fn run(self, end: &AtomicBool) -> io::Result<bool> {
        let mut terminal = ratatui::try_init()?;
        let result = self.show(&mut terminal, &mut TerminalKeys, end);
        let restored = ratatui::try_restore();
        let key = result?;
        restored?;
        Ok(key)
    }

    /// As [`Self::run`], on any terminal, with any keys.
    ///
    /// # Errors
    /// When drawing or reading keys fails.
    pub fn show<B>(
        mut self,
        terminal: &mut Terminal<B>,
        keys: &mut impl Keys,
        end: &AtomicBool,
    ) -> io::Result<bool>
    where
        B: Backend,
        B::Error: Send + Sync + 'static,
    {
        while !end.load(Ordering::Acquire) {
            let state = self.board.state();
            self.remember(&state);
            terminal.draw(|frame| self.draw(frame, &state)).map_err(io::Error::other)?;
            if keys.wants_end(FRAME)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remember(&mut self, state: &State) {
        if self.frames.is_multiple_of(FRAMES_A_SECOND) {
            let now = state.engine.as_ref().map_or(0.0, |engine| engine.rate_now);
            // A sparkline has whole numbers only; rates are small.
            self.history.push((now * 1000.0) as u64);
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
        self.frames = self.frames.wrapping_add(1);
    }

    fn draw(&self, frame: &mut Frame<'_>, state: &State) {
        let workers: usize = state
            .engine
            .iter()
            .flat_map(|engine| &engine.backends)
            .map(|b| 1 + b.workers.len())
            .sum();
        let rows = u16::try_from(workers).unwrap_or(u16::MAX).clamp(1, WORKER_ROWS_MAX);
        let [head, rate, backends, log] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(8),
            Constraint::Length(rows + 3),
            Constraint::Min(3),
        ])
        .areas(frame.area());
        draw_head(frame, head, state);
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)])
                .areas(rate);
        self.draw_rate(frame, left, state);
        draw_mining(frame, right, state);
        draw_backends(frame, backends, state);
        draw_log(frame, log, state);
    }

    fn draw_rate(&self, frame: &mut Frame<'_>, area: Rect, state: &State) {
        let block = Block::bordered().title(" hash rate ");
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [numbers, line] =
            Layout::vertical([Constraint::Length(4), Constraint::Min(0)]).areas(inner);
        let engine = state.engine.as_ref();
        let (now, average) = engine.map_or((0.0, 0.0), |e| (e.rate_now, e.rate_average));
        let (hashes, late) = engine.map_or((0, 0), |e| (e.hashes, e.late_hashes));
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let text = vec![
            Line::from(vec!["now      ".into(), Span::styled(text::rate(now), bold)]),
            Line::from(format!("average  {}", text::rate(average))),
            Line::from(format!("hashes   {hashes}, {late} late")),
            Line::from(format!("memory   {}", text::memory(state))),
        ];
        frame.render_widget(Paragraph::new(text), numbers);
        let width = usize::from(line.width);
        let from = self.history.len().saturating_sub(width);
        let style = Style::new().fg(Color::Green);
        frame.render_widget(Sparkline::default().data(&self.history[from..]).style(style), line);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let uptime = state.engine.as_ref().map_or(0.0, |engine| engine.uptime_secs);
    let words =
        format!(" shoal mine · {} · {} · q ends it", state.lifecycle.name(), text::clock(uptime));
    let style = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(words).style(style), area);
}

fn draw_mining(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let block = Block::bordered().title(" mining ");
    let source = &state.source;
    let (word, colour) =
        if source.connected { ("connected", Color::Green) } else { ("apart", Color::Yellow) };
    let task = state.task.as_ref().map_or_else(
        || "none".to_owned(),
        |task| {
            let age = text::clock(task.age_secs);
            format!("height {}, difficulty {}, for {age}", task.height, task.difficulty)
        },
    );
    let shares = state.shares;
    let text = vec![
        Line::from(vec![
            "source   ".into(),
            Span::styled(word, Style::new().fg(colour)),
            format!(" {}", source.url).into(),
        ]),
        Line::from(format!("task     {task}")),
        Line::from(format!("shares   {} accepted ({} verified)", shares.accepted, shares.verified)),
        Line::from(format!(
            "         {} stale, {} refused, {} lost, {} unknown",
            shares.stale, shares.refused, shares.lost, shares.unknown
        )),
        Line::from(format!("blocks   {}", shares.blocks)),
    ];
    frame.render_widget(Paragraph::new(text).block(block), area);
}

fn draw_backends(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let mut rows = Vec::new();
    for backend in state.engine.iter().flat_map(|engine| &engine.backends) {
        rows.push(Row::new([
            backend.name.clone(),
            text::phase(backend.phase).to_owned(),
            text::rate(backend.rate_now),
            text::rate(backend.rate_average),
            backend.fault.clone().unwrap_or_else(|| match backend.watts {
                Some(watts) => format!("{watts:.0} W, {}", backend.kernel),
                None => backend.kernel.clone(),
            }),
        ]));
        for (number, worker) in backend.workers.iter().enumerate() {
            let core = worker.worker.core.map_or_else(String::new, |core| format!("core {core}"));
            rows.push(Row::new([
                format!("  worker {number}"),
                core,
                text::rate(worker.rate_now),
                text::rate(worker.rate_average),
                match backend.capabilities.device_memory_kib {
                    Some(kib) => {
                        format!(
                            "{} MiB, {} hashes at a time",
                            kib / 1024,
                            worker.worker.side_by_side
                        )
                    }
                    None => format!("{} x{}", worker.worker.pages, worker.worker.side_by_side),
                },
            ]));
        }
    }
    let head = Row::new(["backend", "phase", "now", "average", "kernel, pages"])
        .style(Style::new().add_modifier(Modifier::BOLD));
    let widths = [
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Min(12),
    ];
    let block = Block::bordered().title(" backends ");
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

fn draw_log(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let block = Block::bordered().title(" log ");
    let height = usize::from(block.inner(area).height);
    let from = state.recent_logs.len().saturating_sub(height);
    let lines: Vec<Line<'_>> = state.recent_logs[from..]
        .iter()
        .map(|line| {
            let colour = match line.level {
                Level::Info => Color::Reset,
                Level::Success => Color::Green,
                Level::Warn => Color::Yellow,
                Level::Error => Color::Red,
            };
            Line::styled(text::log_line(line), Style::new().fg(colour))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

const FRAME: Duration = Duration::from_millis(200);
const FRAMES_A_SECOND: u32 = 5;
const HISTORY_MAX: usize = 600;
const WORKER_ROWS_MAX: u16 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    use ratatui::backend::TestBackend;

    use crate::backend::{Calls, Capabilities, Queue, Worker};
    use crate::board::Lifecycle;
    use crate::source::Verdict;
    use crate::status::{BackendPhase, BackendStatus, EnginePhase, Status, WorkerStatus};

    /// Asks for the end after some frames.
    struct After(u32);

    impl Keys for After {
        fn wants_end(&mut self, _: Duration) -> io::Result<bool> {
            self.0 -= 1;
            Ok(self.0 == 0)
        }
    }

    fn status() -> Status {
        let worker = WorkerStatus {
            worker: Worker {
                core: Some(1),
                side_by_side: 4,
                pages: "2 MiB pages".to_owned(),
                memory_kib: 1,
                huge_kib: None,
                hashes: 9,
            },
            rate_now: 2.25,
            rate_average: 2.125,
        };
        let backend = BackendStatus {
            name: "cpu0".to_owned(),
            phase: BackendPhase::Working,
            capabilities: Capabilities {
                lanes: 4,
                device_memory_kib: None,
                calls: Calls::Blocking,
                queue: Queue::Append { depth: 2 },
                trusted: true,
                preemption: None,
            },
            kernel: "avx512".to_owned(),
            watts: None,
            rate_now: 2.25,
            rate_average: 2.125,
            hashes: 9,
            late_hashes: 1,
            share: 1.0,
            strikes: 0,
            witnesses: 0,
            spot_checks: 0,
            fault: None,
            workers: vec![worker],
        };
        Status {
            phase: EnginePhase::Working,
            uptime_secs: 3723.0,
            ready_secs: 3720.0,
            working_secs: 3700.0,
            rate_now: 2.25,
            rate_average: 2.125,
            hashes: 9,
            late_hashes: 1,
            solutions: 1,
            false_solutions: 0,
            work: None,
            backends: vec![backend],
        }
    }

    fn drawn(board: Board, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let end = AtomicBool::new(false);
        let screen = Screen::new(Arc::new(board));
        assert!(screen.show(&mut terminal, &mut After(7), &end).unwrap(), "a key ended it");
        let buffer = terminal.backend().buffer();
        let lines = buffer
            .content()
            .chunks(usize::from(width))
            .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn everything_that_matters_is_on_the_screen() {
        let board = Board::new();
        board.move_to(Lifecycle::Starting, "test");
        board.move_to(Lifecycle::Running, "test");
        board.set_connected(true, "x");
        board.set_engine(status());
        board.judged(5, &Verdict::Accepted { verified: true });
        board.log(Level::Success, "share", "nonce 17 accepted");
        let screen = drawn(board, 100, 30);
        for expect in [
            "running",
            "1h02m03s",
            "now      2.250 H/s",
            "average  2.125 H/s",
            "hashes   9, 1 late",
            "memory   1 KiB; half of it costs 22 %",
            "connected",
            "1 accepted (1 verified)",
            "cpu0",
            "working",
            "avx512",
            "worker 0",
            "core 1",
            "2 MiB pages x4",
            "share: nonce 17 accepted",
        ] {
            assert!(screen.contains(expect), "{expect} in\n{screen}");
        }
    }

    #[test]
    fn an_empty_board_and_a_tiny_terminal_are_drawn() {
        for (width, height) in [(80, 24), (20, 5), (1, 1)] {
            drawn(Board::new(), width, height);
        }
        let board = Board::new();
        board.set_engine(status());
        for i in 0..100 {
            board.log(Level::Info, "pool", format!("line {i}"));
        }
        let screen = drawn(board, 60, 24);
        assert!(screen.contains("line 99"), "the newest lines stay in sight\n{screen}");
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let mut terminal = Terminal::new(TestBackend::new(40, 10)).unwrap();
        let screen = Screen::new(Arc::new(Board::new()));
        let by_key = screen.show(&mut terminal, &mut After(9), &AtomicBool::new(true)).unwrap();
        assert!(!by_key);
    }
}
