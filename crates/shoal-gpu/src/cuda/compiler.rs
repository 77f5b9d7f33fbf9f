//! NVRTC, the compiler of CUDA's toolkit, loaded when programs are built.

#![allow(unsafe_code)] // calls of NVRTC

use std::ffi::{CStr, CString, c_char};

use cudarc::nvrtc::{Ptx, result, sys};

use super::{SOURCE, Tuning};
use crate::device::GpuError;

/// Programs for cards of one kind.
#[derive(Debug)]
pub(super) struct Built {
    /// Machine code of the very card, or PTX, translated by the driver, for a card newer than the
    /// compiler.
    pub(super) image: Ptx,
    /// The compiler's words about registers.
    #[cfg(test)]
    log: String,
}

/// `true` where NVRTC can be loaded.
pub(super) fn is_there() -> bool {
    // SAFETY: loading NVRTC runs its initialisers, as any program with NVRTC does.
    unsafe { sys::is_culib_present() }
}

/// The programs for a card of this capability (90 is 9.0).
pub(super) fn compile(capability: u32, tuning: Tuning) -> Result<Built, GpuError> {
    if !is_there() {
        let words = "NVRTC, the compiler of CUDA's toolkit (libnvrtc), cannot be loaded";
        return Err(GpuError::Driver(words.to_owned()));
    }
    let known = generations()?;
    let is_known = known.contains(&capability);
    let generation = known.iter().filter(|known| **known <= capability).max();
    let Some(generation) = generation else {
        let words = format!("this NVRTC builds nothing for a card as old as compute {capability}");
        return Err(GpuError::Driver(words));
    };
    let kind = if is_known { "sm" } else { "compute" };
    let mut options = vec![
        format!("--gpu-architecture={kind}_{generation}"),
        format!("--define-macro=PREFETCH={}", tuning.prefetch),
        "--ptxas-options=-v".to_owned(),
    ];
    options.extend(tuning.registers.map(|registers| format!("--maxrregcount={registers}")));
    let program = Program::new()?;
    // SAFETY: the program is NVRTC's own, and lives until the end of this function.
    let compiled = unsafe { result::compile_program(program.0, &options) };
    // SAFETY: as before.
    let log = unsafe { result::get_program_log(program.0) };
    let log = log.map_or_else(|_| String::new(), |log| text(&log));
    compiled.map_err(|error| {
        let words = format!("NVRTC refuses the programs ({:?}): {log}", error.0);
        GpuError::Driver(words)
    })?;
    let image = if is_known { Ptx::from_binary(program.machine_code()?) } else { program.ptx()? };
    Ok(Built {
        image,
        #[cfg(test)]
        log,
    })
}

/// The generations of cards known to the loaded NVRTC.
fn generations() -> Result<Vec<u32>, GpuError> {
    let mut count = 0;
    // SAFETY: NVRTC is there, and writes one number.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(failed)?;
    let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: NVRTC writes as many numbers as it named just now.
    unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result().map_err(failed)?;
    Ok(known.into_iter().filter_map(|generation| u32::try_from(generation).ok()).collect())
}

fn failed(error: result::NvrtcError) -> GpuError {
    GpuError::Driver(format!("NVRTC: {:?}", error.0))
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned()
}

/// A program of NVRTC's.
struct Program(sys::nvrtcProgram);

impl Program {
    fn new() -> Result<Self, GpuError> {
        let source = CString::new(SOURCE).expect("the source has no zero byte");
        result::create_program(&source, Some(c"argon2id.cu")).map(Self).map_err(failed)
    }

    fn machine_code(&self) -> Result<Vec<u8>, GpuError> {
        let mut bytes = 0;
        // SAFETY: the program is NVRTC's own and compiled; NVRTC writes one number.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut bytes) }.result().map_err(failed)?;
        let mut code = vec![0u8; bytes];
        // SAFETY: NVRTC writes as many bytes as it named just now.
        unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }.result().map_err(failed)?;
        Ok(code)
    }

    fn ptx(&self) -> Result<Ptx, GpuError> {
        // SAFETY: the program is NVRTC's own, and compiled.
        let ptx = unsafe { result::get_ptx(self.0) }.map_err(failed)?;
        Ok(Ptx::from_src(text(&ptx)))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created by NVRTC, and nothing refers to it any more.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{self, Write as _};

    /// Past the capture of passing tests.
    fn say(words: &str) {
        writeln!(io::stderr(), "{words}").expect("stderr is open");
    }

    fn is_missing() -> bool {
        if !is_there() {
            say("NO NVRTC: libnvrtc is neither installed nor in LD_LIBRARY_PATH: skipped");
        }
        !is_there()
    }

    /// Registers of the program `fill`, and bytes spilled, by the compiler's log.
    fn registers(log: &str) -> (u32, u32) {
        let fill = log.split("entry function 'fill'").nth(1).expect("it is one of the programs");
        let number = |before: &str| -> u32 {
            let rest = fill.split(before).nth(1).unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        (number("Used "), number("stack frame, "))
    }

    #[test]
    fn every_generation_of_cards_gets_machine_code_without_spills() {
        if is_missing() {
            return;
        }
        let mut told = Vec::new();
        for generation in generations().unwrap() {
            let built = compile(generation, Tuning::default()).unwrap();
            let (count, spilled) = registers(&built.log);
            assert!(count <= 72 && spilled == 0, "{generation}: {count}, {spilled} spilled");
            told.push(format!("{generation}: {count}"));
        }
        say(&format!("NVRTC, registers by generation: {}", told.join(", ")));
        let (count, _) = registers(
            &compile(generations().unwrap()[0], Tuning { registers: Some(40), prefetch: 4 })
                .unwrap()
                .log,
        );
        assert!(count <= 40, "{count} registers");
    }

    #[test]
    fn a_card_newer_than_the_compiler_gets_a_program_in_the_cards_own_terms() {
        if is_missing() {
            return;
        }
        for (prefetch, is_prefetched) in [(4, true), (0, false)] {
            let built = compile(999, Tuning { registers: None, prefetch }).unwrap();
            let ptx = built.image.to_src();
            for program in ["begin", "fill", "finish"] {
                assert!(ptx.contains(&format!(".visible .entry {program}(")), "{program}");
            }
            // Shuffles, and 16 bytes at a time past the L1 cache.
            for words in ["shfl.sync.idx", "ld.global.cg.v4", "st.global.cg.v4"] {
                assert!(ptx.contains(words), "{words}");
            }
            assert_eq!(ptx.contains("prefetch.global.L2"), is_prefetched);
        }
        let error = compile(20, Tuning::default()).unwrap_err();
        assert!(error.to_string().contains("as old as compute 20"), "{error}");
    }
}
