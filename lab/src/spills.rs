//! `lab spills`: the stack traffic of the Argon2 kernels, read off their machine code.
//!
//! A kernel is written to keep its vectors in registers; a compiler spilling some costs a tenth
//! without a word. The code is disassembled by `objdump` of binutils; a missing `objdump` is
//! reported, and nothing is claimed. A block kept on the stack by design is counted like a spill,
//! so the numbers tell of a change from build to build, not by themselves.

use std::process::Command;

use crate::out;

/// One function of a kernel.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    instructions: usize,
    /// Vectors written to the stack, and vectors read back.
    spills: usize,
    reloads: usize,
}

/// Prints a line for each function of the kernels in this program. False when there is none to be
/// seen: a program without symbols.
pub(crate) fn spills() -> Result<bool, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("objdump")
        .args(["--disassemble", "--demangle", "--no-show-raw-insn"])
        .arg(&program)
        .output()
        .map_err(|error| {
            format!("objdump cannot be started ({error}): spills were not looked for")
        })?;
    if !output.status.success() {
        return Err(format!("objdump: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let functions = functions(&String::from_utf8_lossy(&output.stdout));
    if functions.is_empty() {
        out::note(
            "error: no kernel is to be seen in this build; \
             `cargo run --profile lab -p shoal-lab -- spills` has symbols",
        );
        return Ok(false);
    }
    for function in functions {
        out::line(&format!(
            "{:>6} instructions {:>4} vectors to the stack {:>4} from it  {}",
            function.instructions, function.spills, function.reloads, function.name
        ));
    }
    Ok(true)
}

/// The functions of the kernels in a disassembly, most spills first.
fn functions(text: &str) -> Vec<Function> {
    let mut all: Vec<Function> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        // `0000000000012340 <crate::module::function>:`
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            inside = name.1.contains("shoal_argon::kernel::");
            if inside {
                let name = name.1.to_owned();
                all.push(Function { name, instructions: 0, spills: 0, reloads: 0 });
            }
            continue;
        }
        let (true, Some(function)) = (inside, all.last_mut()) else { continue };
        // `   12340:\tvmovdqu64 %zmm1,0x40(%rsp)`
        let Some((_, code)) = line.split_once(":\t") else { continue };
        let code = code.split('#').next().unwrap_or(code).trim();
        function.instructions += 1;
        match on_stack(code) {
            Some(Way::To) => function.spills += 1,
            Some(Way::From) => function.reloads += 1,
            None => {}
        }
    }
    all.retain(|function| function.spills + function.reloads > 0);
    all.sort_by_key(|function| std::cmp::Reverse(function.spills));
    all
}

enum Way {
    To,
    From,
}

/// The direction of an instruction moving a vector to or from the stack; `None` for all others. In
/// the notation of `objdump` on x86-64 (AT&T: the target comes last) or AArch64.
fn on_stack(code: &str) -> Option<Way> {
    let (name, operands) = code.split_once(char::is_whitespace)?;
    let operands = operands.trim();
    if operands.contains("(%rsp") || operands.contains("(%rbp") {
        let vector = ["%xmm", "%ymm", "%zmm"].iter().any(|kind| operands.contains(kind));
        return vector.then(|| if operands.ends_with(')') { Way::To } else { Way::From });
    }
    let stack = operands.contains("[sp") || operands.contains("[x29");
    match (stack && operands.starts_with('q'), name) {
        (true, "str" | "stp" | "stur") => Some(Way::To),
        (true, "ldr" | "ldp" | "ldur") => Some(Way::From),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_counted_in_kernels_alone_and_both_ways() {
        let text = "0000000000001000 <shoal_argon::kernel::avx2::fill>:\n\
                    \x20   1000:\tvmovdqu %ymm1,0x40(%rsp)\n\
                    \x20   1008:\tvpaddq 0x40(%rsp),%ymm0,%ymm1\n\
                    \x20   1010:\tmov    %rax,0x8(%rsp)\n\
                    \x20   1018:\tvmovdqu %ymm1,(%rdi)\n\
                    0000000000002000 <shoal_argon::kernel::neon::fill>:\n\
                    \x20   2000:\tstp\tq0, q1, [sp, #32]\n\
                    \x20   2004:\tldr\tq0, [x0]\n\
                    0000000000003000 <shoal_sql::other>:\n\
                    \x20   3000:\tvmovdqu %ymm1,0x40(%rsp)\n";
        let found = functions(text);
        let counts =
            |function: &Function| (function.instructions, function.spills, function.reloads);
        assert_eq!(found.iter().map(counts).collect::<Vec<_>>(), [(4, 1, 1), (2, 1, 0)]);
        assert!(found[0].name.ends_with("avx2::fill"));
    }
}
