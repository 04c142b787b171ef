//! The files for a bug report about BOLT, in one folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::calls::Wish;
use super::diagnostics::Said;
use super::input::Input;
use super::preflight;
use super::rewriter::Bolt;

/// The contents.
#[derive(Clone, Copy)]
pub struct Bundle<'a> {
    /// The fault, in the words of the failed check.
    pub trouble: &'a str,
    /// The BOLT that made the broken program.
    pub bolt: &'a Bolt<'a>,
    /// The request.
    pub wish: &'a Wish,
    /// The program before BOLT.
    pub input: &'a Input,
    /// The profile.
    pub profile: &'a Path,
    /// The functions that break it; it works if they are skipped. Empty if none was found.
    pub culprits: &'a [String],
    /// BOLT's messages.
    pub said: &'a Said,
}

/// Writes the bundle into a new folder: `README.txt`, `command.sh`, `functions.txt`, `said.json`, `profile.fdata`, and `skip-funcs.txt` if
/// the broken program was made with skipped functions. The command reads and writes in this folder, except for the program itself, which is
/// not copied because it may be large or secret; its build-id, size and hash are listed.
///
/// # Errors
/// Fails when the folder already exists or can't be written.
pub fn write(folder: &Path, bundle: &Bundle<'_>) -> Result<Vec<PathBuf>> {
    let named =
        || format!("the folder {} for the bug report can't be written: name another one", folder.display());
    fs::create_dir(folder).with_context(named)?;
    let folder = folder.canonicalize().with_context(named)?;
    let skipped = bundle.bolt.skipped(bundle.input, &bundle.wish.skip);
    let skip_file = bundle.bolt.skip_file(&folder, &skipped)?;
    let profile = folder.join("profile.fdata");
    let output = folder.join(bundle.input.executable.file_name().unwrap_or_default());
    let call = bundle.bolt.command(bundle.input, &profile, bundle.wish, &output, skip_file.as_deref());
    let texts = [
        ("README.txt", readme(bundle, &skipped)?),
        ("command.sh", format!("#!/bin/sh\n{call}\n")),
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
    fs::copy(bundle.profile, &profile)
        .with_context(|| format!("{} can't be copied to {}", bundle.profile.display(), profile.display()))?;
    files.push(profile);
    files.extend(skip_file);
    Ok(files)
}

fn readme(bundle: &Bundle<'_>, skipped: &[String]) -> Result<String> {
    let Input { executable, anatomy, facts, warnings } = bundle.input;
    let mut text = format!("A program that BOLT breaks.\n\nWhat is wrong: {}\n\n", bundle.trouble);
    for tool in &bundle.bolt.tools().receipts {
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
    text += "\ncommand.sh rewrites the input with profile.fdata.\n";
    if !skipped.is_empty() {
        text += &format!("It skips these functions (skip-funcs.txt): {}\n", skipped.join(", "));
    }
    text += &match bundle.culprits {
        [] => "Hone found no function to skip that makes it work.\n".to_owned(),
        some => format!("It works when BOLT skips these (functions.txt): {}\n", some.join(", ")),
    };
    let names = preflight::local_names(executable)?;
    for culprit in bundle.culprits {
        let namesakes = names.get(culprit).copied().unwrap_or_default();
        if namesakes > 1 {
            // A profile's name of a local function stands for all functions with that name.
            text += &format!("{namesakes} functions have the name {culprit}: any of them may be the cause\n");
        }
    }
    Ok(text)
}
