//! Effect on the control flow, and length, of an instruction at a known address: only the part of the instruction set that branches need.
//! Other instructions are not recognized. The input bytes are not trusted. The code is pure.

use crate::image::Image;

/// Effect of a branch on the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Returns to the next instruction.
    Call,
    /// Never continues after it.
    Leaves,
    /// Returns to the caller.
    Returns,
    /// Continues after it if it is not taken.
    Conditional,
}

/// A branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) way: Way,
    /// Length in bytes.
    pub(crate) size: u32,
}

/// ELF's machine numbers, and their position.
const X86_64: [u8; 2] = [62, 0];
const AARCH64: [u8; 2] = [183, 0];
const MACHINE: std::ops::Range<usize> = 18..20;

/// Whether this code knows the branches of the file's machine.
pub(crate) fn is_known(file: &[u8]) -> bool {
    file.get(MACHINE).is_some_and(|machine| machine == X86_64 || machine == AARCH64)
}

/// The branch at a linked address of a file; `None` if there is no known branch.
pub(crate) fn at(image: &Image, file: &[u8], address: u64) -> Option<Decoded> {
    let offset = usize::try_from(image.offset_of(address)?).ok()?;
    let code = file.get(offset..)?;
    let machine = file.get(MACHINE)?;
    if machine == X86_64 {
        x86_64(code)
    } else if machine == AARCH64 {
        aarch64(code)
    } else {
        None
    }
}

/// Intel's manual, volume 2: `notrack`, `bnd`, `rep` and REX may precede a branch.
fn x86_64(code: &[u8]) -> Option<Decoded> {
    let is_prefix = |byte: &u8| matches!(byte, 0x2e | 0x3e | 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f);
    let prefixes = code.iter().take(4).take_while(|byte| is_prefix(byte)).count();
    let code = &code[prefixes..];
    let (way, size) = match *code {
        [0xe8, ..] => (Way::Call, 5),
        [0xe9, ..] => (Way::Leaves, 5),
        [0xeb, ..] => (Way::Leaves, 2),
        [0x70..=0x7f | 0xe0..=0xe3, ..] => (Way::Conditional, 2),
        [0x0f, 0x80..=0x8f, ..] => (Way::Conditional, 6),
        [0xc3, ..] => (Way::Returns, 1),
        [0xc2, ..] => (Way::Returns, 3),
        [0xff, modes, ..] if (modes >> 3) & 7 == 2 => (Way::Call, 1 + operand(modes, code.get(2).copied())),
        [0xff, modes, ..] if (modes >> 3) & 7 == 4 => (Way::Leaves, 1 + operand(modes, code.get(2).copied())),
        _ => return None,
    };
    Some(Decoded { way, size: prefixes as u32 + size })
}

/// Length of a ModRM byte with its following bytes.
fn operand(modes: u8, scale: Option<u8>) -> u32 {
    let (mode, register) = (modes >> 6, modes & 7);
    let has_scale = mode != 3 && register == 4;
    let displacement = match mode {
        0 if register == 5 || (has_scale && scale.is_some_and(|scale| scale & 7 == 5)) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    1 + u32::from(has_scale) + displacement
}

/// Arm's manual, C4.1: branches, exceptions and system instructions.
fn aarch64(code: &[u8]) -> Option<Decoded> {
    let word = u32::from_le_bytes(code.get(..4)?.try_into().ok()?);
    let way = match word {
        word if word >> 26 == 0b10_0101 => Way::Call,
        word if word >> 26 == 0b00_0101 => Way::Leaves,
        word if word >> 24 == 0b0101_0100 => Way::Conditional,
        // Compare, or test a bit, and branch.
        word if word >> 25 & 0x3e == 0b01_1010 || word >> 25 & 0x3f == 0b01_1011 => Way::Conditional,
        // Branches by register: br, blr, ret, with or without pointer authentication.
        word if word >> 25 == 0b110_1011 => match word >> 21 & 3 {
            0 => Way::Leaves,
            1 => Way::Call,
            2 => Way::Returns,
            _ => return None,
        },
        _ => return None,
    };
    Some(Decoded { way, size: 4 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_of_x86_64_with_their_lengths() {
        let of = |code: &[u8]| x86_64(code).map(|found| (found.way, found.size));
        assert_eq!(of(&[0xe8, 1, 2, 3, 4]), Some((Way::Call, 5)));
        assert_eq!(of(&[0x75, 0x9f]), Some((Way::Conditional, 2)));
        assert_eq!(of(&[0x0f, 0x84, 0, 0, 0, 0]), Some((Way::Conditional, 6)));
        assert_eq!(of(&[0xf3, 0xc3]), Some((Way::Returns, 2)));
        // jmp *%rax; notrack jmp *%r8; call *8(%rsp); jmp *0x100(%rip); jmp *0x8(,%rax,8); call *(%rbx,%rcx).
        assert_eq!(of(&[0xff, 0xe0]), Some((Way::Leaves, 2)));
        assert_eq!(of(&[0x3e, 0x41, 0xff, 0xe0]), Some((Way::Leaves, 4)));
        assert_eq!(of(&[0xff, 0x54, 0x24, 0x08]), Some((Way::Call, 4)));
        assert_eq!(of(&[0xff, 0x25, 0, 1, 0, 0]), Some((Way::Leaves, 6)));
        assert_eq!(of(&[0xff, 0x24, 0xc5, 8, 0, 0, 0]), Some((Way::Leaves, 7)));
        assert_eq!(of(&[0xff, 0x14, 0x0b]), Some((Way::Call, 3)));
        // push *%rax is no branch; neither are a nop, nothing, and prefixes alone.
        for code in [&[0xff, 0xf0][..], &[0x90], &[], &[0x66, 0x66, 0x66, 0x66, 0x66], &[0xff]] {
            assert_eq!(of(code), None, "{code:x?}");
        }
    }

    #[test]
    fn branches_of_aarch64() {
        let of = |word: u32| aarch64(&word.to_le_bytes()).map(|found| found.way);
        assert_eq!(of(0x9400_0010), Some(Way::Call)); // bl
        assert_eq!(of(0x1400_0010), Some(Way::Leaves)); // b
        assert_eq!(of(0x5400_0041), Some(Way::Conditional)); // b.ne
        assert_eq!(of(0xb400_0040), Some(Way::Conditional)); // cbz
        assert_eq!(of(0x3707_ffe0), Some(Way::Conditional)); // tbnz
        assert_eq!(of(0xd65f_03c0), Some(Way::Returns)); // ret
        assert_eq!(of(0xd63f_0100), Some(Way::Call)); // blr x8
        assert_eq!(of(0xd61f_0200), Some(Way::Leaves)); // br x16
        assert_eq!(of(0xd503_201f), None); // nop
        assert_eq!(aarch64(&[0, 0]), None);
    }
}
