//! The plain log: events, line by line, and the hash rate from time to time.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::board::{Announcement, Board, Level};
use crate::pool::finished;
use crate::ui::text;

/// Writes lines until `stop` is set, and then the rest. Ends early when nobody reads them.
///
/// # Errors
/// When a line cannot be written.
pub async fn plain(
    board: Arc<Board>,
    mut out: impl Write,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut heard = board.subscribe();
    // Lines from before the subscription; from here on the announcements count.
    for line in board.state().recent_logs {
        writeln!(out, "{}", text::log_line(&line))?;
    }
    let mut stats_at = Instant::now() + stats_pause(&board);
    loop {
        let news = tokio::select! {
            () = finished(&mut stop) => break,
            news = heard.recv() => news,
            () = sleep_until(stats_at.into()) => {
                let state = board.state();
                if state.running {
                    writeln!(out, "{}", text::stats(&state))?;
                }
                stats_at = Instant::now() + stats_pause(&board);
                continue;
            }
        };
        match news {
            Ok(news) => write_news(&mut out, &news)?,
            Err(RecvError::Lagged(missed)) => writeln!(out, "({missed} lines are left out)")?,
            Err(RecvError::Closed) => break,
        }
    }
    while let Ok(news) = heard.try_recv() {
        write_news(&mut out, &news)?;
    }
    if board.state().run_id > 0 {
        writeln!(out, "{}", text::stats(&board.state()))?;
    }
    out.flush()
}

fn write_news(out: &mut impl Write, news: &Announcement) -> io::Result<()> {
    if news.name != "miner.log" {
        return Ok(());
    }
    let data = &news.data;
    let level = match data["level"].as_str() {
        Some("success") => Level::Success,
        Some("warn") => Level::Warn,
        Some("error") => Level::Error,
        _ => Level::Info,
    };
    let secs = data["elapsed_secs"].as_f64().unwrap_or_default();
    let (tag, words) = (data["tag"].as_str(), data["message"].as_str());
    let (tag, words) = (tag.unwrap_or_default(), words.unwrap_or_default());
    writeln!(out, "{secs:9.1} {} {tag}: {words}", text::level(level))
}

/// Read anew each time: the setting may change under way.
fn stats_pause(board: &Board) -> Duration {
    let config = board.state().effective_config;
    Duration::from_secs(config.map_or(STATS_SECS, |config| config.stats_secs))
}

const STATS_SECS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::board::Lifecycle;

    #[test]
    fn lines_come_in_order_to_the_last() {
        let board = Arc::new(Board::new());
        board.log(Level::Info, "pool", "before anybody listened");
        board.move_to(Lifecycle::Starting, "test");
        let mut out = Vec::new();
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        runtime.block_on(async {
            let (stop, stopped) = watch::channel(false);
            let writing = plain(Arc::clone(&board), &mut out, stopped);
            let telling = async {
                tokio::task::yield_now().await;
                board.log(Level::Warn, "pool", "one");
                board.log(Level::Success, "share", "two");
                stop.send(true).unwrap();
            };
            let (written, ()) = tokio::join!(writing, telling);
            written.unwrap();
        });
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].ends_with("info  pool: before anybody listened"), "{text}");
        assert!(lines[1].ends_with("warn  pool: one"), "{text}");
        assert!(lines[2].ends_with("ok    share: two"), "{text}");
        assert!(lines[3].contains("H/s now"), "{text}");
    }
}
