//! What a bug report about BOLT needs, in one folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_record::ToolReceipt;
use hone_tool::Call;

use super::{Input, Said};

/// What goes in.
#[derive(Debug, Clone, Copy)]
pub struct Bundle<'a> {
    /// What is wrong, in the words of the check that failed.
    pub trouble: &'a str,
    /// The call that makes the program that does not work.
    pub call: &'a Call,
    /// BOLT and its version.
    pub tools: &'a [ToolReceipt],
    /// The program before BOLT.
    pub input: &'a Input,
    /// The profile.
    pub profile: &'a Path,
    /// The functions with which it breaks; it works when these are skipped. Empty when none was found.
    pub culprits: &'a [String],
    /// What BOLT said.
    pub said: &'a Said,
}

/// Writes the bundle into a new folder: `README.txt`, `command.sh`, `functions.txt`, `profile.fdata`, `said.json`. The program
/// itself is not copied, since it may be large or secret; its build-id, size and hash are told.
///
/// # Errors
/// When the folder is there already or can't be written.
pub fn write(folder: &Path, bundle: &Bundle<'_>) -> Result<Vec<PathBuf>> {
    let named =
        || format!("the folder {} for the bug report can't be written: name another one", folder.display());
    fs::create_dir(folder).with_context(named)?;
    let texts = [
        ("README.txt", readme(bundle)),
        ("command.sh", format!("#!/bin/sh\n{}\n", bundle.call)),
        ("functions.txt", bundle.culprits.iter().map(|name| format!("{name}\n")).collect()),
        ("said.json", serde_json::to_string_pretty(bundle.said)? + "\n"),
    ];
    let mut files = Vec::new();
    for (name, text) in texts {
        let file = folder.join(name);
        fs::write(&file, text).with_context(named)?;
        files.push(file);
    }
    fs::set_permissions(&files[1], fs::Permissions::from_mode(0o755)).with_context(named)?;
    let profile = folder.join("profile.fdata");
    fs::copy(bundle.profile, &profile)
        .with_context(|| format!("{} can't be copied to {}", bundle.profile.display(), profile.display()))?;
    files.push(profile);
    Ok(files)
}

fn readme(bundle: &Bundle<'_>) -> String {
    let Input { executable, anatomy, facts, warnings } = bundle.input;
    let mut text = format!("A program that BOLT breaks.\n\nWhat is wrong: {}\n\n", bundle.trouble);
    for tool in bundle.tools {
        text += &format!("Tool: {} ({})\n", tool.version, tool.path);
    }
    text += &format!(
        "Input: {} ({} bytes, .text {} bytes)\n  build-id {}\n  SHA-256 {}\n",
        executable.display(),
        facts.file_bytes,
        facts.text_bytes,
        anatomy.build_id.as_deref().unwrap_or("none"),
        facts.sha256
    );
    for warning in warnings {
        text += &format!("  {}\n", warning.what);
    }
    text += "\ncommand.sh rewrites the input by profile.fdata.\n";
    text += &match bundle.culprits {
        [] => "No function was found whose skipping mends it.\n".to_owned(),
        some => format!("It works when these are skipped (functions.txt): {}\n", some.join(", ")),
    };
    text
}
