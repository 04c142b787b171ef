//! A program made by the commands of its own build system, each variant in a fresh copy of its sources.
//!
//! The build only has to take its compilers from CC and CXX or from PATH. There it finds the wrappers of [`crate::shim`], which add the
//! flags of the phase. The linker's map shows the result, see [`crate::linkmap`]. The commands of the usual build systems are in [`sugar`].

mod copy;
pub(crate) mod refusal;
pub mod sugar;

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use hone_record::{CodeInside, HotFunction, ProfileApplied, ProfileProof, ToolReceipt};
use hone_tool::{Call, Runner};

use crate::autofdo::Converter;
use crate::bolt::preflight;
use crate::build_request::{BuildRequest, Guide};
use crate::builder::Builder;
use crate::built::{Built, How, Library, Merged, Proven, refuse_other_counting, refuse_same_code, words_of};
use crate::c_toolchain::{CToolchain, Tools};
use crate::capture::{DumpObject, ProfileFiles, ProfileKind, Tally, build_dump_object, planned_dump_object};
use crate::diagnostics::{self, HEARD_FROM_LLVM};
use crate::elf::{self, FileFacts, file_facts};
use crate::gcov::{self, Gcov};
use crate::layout::layout_flags;
use crate::libraries::Libraries;
use crate::linkmap::{Coverage, LinkMap, Reason, Unshaped, coverage, link_of};
use crate::profdata::{
    MergeInput, SAMPLES_ENDING, as_text, merge_files, merge_raw, profile_env, proof_of, read_profile, sized,
    tally_of,
};
use crate::proof;
use crate::refusal::{Refusal, refuse_if};
use crate::samples::Samples;
use crate::shim::{Entry, ORDERS, Orders, read_log};
use crate::target_kind::TargetKind;
use crate::weights::whole_weights;
pub use copy::is_no_source;
use copy::{LEFT_OUT, copy_counts, copy_sources};
pub use refusal::RecipeRefusal;

/// A large C++ service takes hours on a small machine.
const LIMIT: Duration = Duration::from_secs(6 * 3600);

/// After these words a compiler or linker no longer reports a profile that does not fit, whatever follows them. With a comma: the value of
/// an option.
const SILENCERS: [&str; 5] = [
    "-w",
    "-Wl,--no-lto-pgo-warn-mismatch",
    "-Xclang,-w",
    "-Xclang,-Wno-backend-plugin",
    "-mllvm,-no-pgo-warn-mismatch",
];

/// Ends the path of the dump object in each instrumented build.
const DUMP_OBJECT: &str = "/aids/profile_dump.o";

/// From this version on, lld refuses version scripts that name missing symbols.
const LLD_ASKS_FOR_SYMBOLS: u32 = 16;

/// Options that remove relocations from a program, or are refused together with them.
const STRIPPERS: [&str; 3] = ["-s", "-Wl,-s", "-Wl,--strip-all"];

/// How a program is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The folder of its sources. Hone copies it and never builds in it.
    pub source: PathBuf,
    /// Commands, each a program with its arguments, run one after the other in the copy. `{jobs}` stands for the number of jobs.
    pub commands: Vec<Vec<String>>,
    /// The program, relative to the source folder.
    pub program: PathBuf,
    /// Jobs of a parallel build.
    pub jobs: usize,
}

/// Blocks on one line get numbers, in the build that is sampled and in the one that uses the samples.
const TELLS_BLOCKS_APART: &str = "-fdebug-info-for-profiling";

/// Flags for compiling and for linking.
fn flags(toolchain: &CToolchain, request: &BuildRequest) -> (Vec<String>, Vec<String>) {
    let mut guide = guide_flags(toolchain, &request.guide);
    if request.guide.profile().is_some() {
        // Hone finds messages about the profile by their words, and Meson would add colours in the middle of them.
        guide.push("-fdiagnostics-color=never".to_owned());
    }
    // Link-time optimisation compiles at the link.
    let (mut compile, mut link) = (guide.clone(), guide);
    if !request.jump_tables {
        compile.push("-fno-jump-tables".to_owned());
    }
    if toolchain.is_clang() && matches!(request.guide, Guide::Use(_) | Guide::CsGenerate(_)) {
        compile.extend(HEARD_FROM_LLVM.iter().flat_map(|option| ["-mllvm", option]).map(str::to_owned));
    }
    match request.guide {
        Guide::Traceable => compile.extend(["-gline-tables-only", TELLS_BLOCKS_APART].map(str::to_owned)),
        Guide::SampleUse(_) => compile.push(TELLS_BLOCKS_APART.to_owned()),
        _ => {}
    }
    match &toolchain.tools {
        Tools::Llvm { lld, pads, .. } => {
            link.push(format!("--ld-path={}", lld.display()));
            if toolchain.major >= LLD_ASKS_FOR_SYMBOLS {
                // Version scripts may name missing symbols: configure scripts have tested GNU ld, which accepts that.
                link.push("-Wl,--undefined-version".to_owned());
            }
            link.extend(request.link_seed.into_iter().flat_map(|seed| layout_flags(seed, *pads)));
        }
        // BOLT can't join the halves into which gcc splits functions.
        Tools::Gnu { .. } if request.relocs => compile.push("-fno-reorder-blocks-and-partition".to_owned()),
        Tools::Gnu { .. } => {}
    }
    if request.relocs {
        link.push("-Wl,--emit-relocs".to_owned());
    }
    if request.apart || request.link_seed.is_some() {
        // Otherwise there is one section per object, and little to shuffle.
        compile.push("-ffunction-sections".to_owned());
    }
    (compile, link)
}

/// Flags for the profile's part. Its warnings must appear but must not break the build: Hone weighs them afterwards.
fn guide_flags(toolchain: &CToolchain, guide: &Guide) -> Vec<String> {
    const HEARD: &str = "-Wbackend-plugin";
    const WEIGHED: &str = "-Wno-error=backend-plugin";
    let profile = |flag: &str, path: &Path| format!("{flag}={}", path.display());
    match (guide, &toolchain.tools) {
        (Guide::None | Guide::Traceable, _) => vec![],
        (Guide::Generate, Tools::Llvm { .. }) => vec!["-fprofile-generate".to_owned()],
        // Without the second flag, counts of threads are lost; the third one writes the notes with the functions' names.
        (Guide::Generate, Tools::Gnu { .. }) => {
            ["-fprofile-generate", "-fprofile-update=prefer-atomic", "-ftest-coverage"]
                .map(str::to_owned)
                .to_vec()
        }
        (Guide::Use(path), Tools::Llvm { .. }) => {
            vec![profile("-fprofile-use", path), HEARD.to_owned(), WEIGHED.to_owned()]
        }
        // Threads leave inconsistent counts. The folder has no name: gcc looks next to the object, where Hone puts the counts.
        (Guide::Use(_), Tools::Gnu { .. }) => [
            "-fprofile-use",
            "-fprofile-correction",
            "-Wmissing-profile",
            "-Wno-error=missing-profile",
            "-Wcoverage-mismatch",
            "-Wno-error=coverage-mismatch",
        ]
        .map(str::to_owned)
        .to_vec(),
        (Guide::CsGenerate(path), _) => {
            let counts = "-fcs-profile-generate";
            vec![profile("-fprofile-use", path), counts.to_owned(), HEARD.to_owned(), WEIGHED.to_owned()]
        }
        (Guide::SampleUse(path), _) => {
            vec![profile("-fprofile-sample-use", path), HEARD.to_owned(), WEIGHED.to_owned()]
        }
    }
}

/// The folders of a variant's build.
struct VariantFolders {
    folder: PathBuf,
    /// The copy of the sources.
    source: PathBuf,
    /// The compiler wrappers.
    names: PathBuf,
    /// The object that is linked into an instrumented program.
    aids: PathBuf,
}

/// Builds variants of one program in one work folder.
pub struct RecipeBuilder<'a> {
    runner: &'a dyn Runner,
    recipe: Recipe,
    toolchain: CToolchain,
    /// The program of the compiler wrappers.
    hone: PathBuf,
    work: PathBuf,
    /// Folders that do not belong to the sources, wherever they are.
    left_out: Vec<PathBuf>,
}

impl<'a> RecipeBuilder<'a> {
    /// A builder. `hone` is the program of Hone itself.
    ///
    /// # Errors
    /// When a folder is not there or can't be made.
    pub fn new(
        runner: &'a dyn Runner,
        recipe: Recipe,
        toolchain: CToolchain,
        hone: &Path,
        work: &Path,
    ) -> Result<Self> {
        fs::create_dir_all(work).with_context(|| format!("{} can't be made", work.display()))?;
        let there =
            |path: &Path| path.canonicalize().with_context(|| format!("{} does not exist", path.display()));
        let recipe = Recipe { source: there(&recipe.source)?, ..recipe };
        let work = there(work)?;
        let is_whole = work.to_str().is_some_and(|path| !path.contains(char::is_whitespace));
        refuse_if(!is_whole, || RecipeRefusal::Blank { folder: work.clone() }.into())?;
        Ok(Self { runner, recipe, toolchain, hone: there(hone)?, left_out: vec![work.clone()], work })
    }

    /// Also excludes this folder, which may be inside the sources without belonging to them.
    #[must_use]
    pub fn leaving_out(mut self, folder: &Path) -> Self {
        self.left_out.push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        self
    }

    fn place(&self, request: &BuildRequest) -> VariantFolders {
        let folder = self.work.join(&request.variant);
        VariantFolders {
            source: folder.join("source"),
            names: folder.join("bin"),
            aids: folder.join("aids"),
            folder,
        }
    }

    fn profile_kind(&self) -> ProfileKind {
        if self.toolchain.is_clang() { ProfileKind::Llvm } else { ProfileKind::Gcov }
    }

    fn orders(&self, request: &BuildRequest, place: &VariantFolders) -> Orders {
        let mut orders = Orders::new(&self.toolchain, &place.folder);
        (orders.compile, orders.link) = flags(&self.toolchain, request);
        if request.guide != Guide::None {
            orders.silencers = SILENCERS.map(str::to_owned).to_vec();
        }
        if request.guide.counts()
            && let Ok(DumpObject { object, link_flags }) =
                planned_dump_object(&place.aids, self.profile_kind())
        {
            // As a word for the linker: the build's own `-x` does not affect it.
            orders.program = vec!["-Xlinker".to_owned(), object.display().to_string()];
            orders.program.extend(link_flags.iter().map(|&flag| flag.to_owned()));
        }
        if request.relocs {
            orders.silencers.extend(STRIPPERS.map(str::to_owned));
        }
        // Some build next to the sources.
        orders.source.clone_from(&place.folder);
        orders
    }

    /// Makes a fresh copy of the sources; removes what an earlier build of this name has left.
    fn lay_out(&self, request: &BuildRequest, place: &VariantFolders) -> Result<()> {
        let folder = &place.folder;
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("{} can't be removed", folder.display()))?;
        }
        copy_sources(&self.recipe.source, &place.source, &self.left_out)?;
        match (&request.guide, &self.toolchain.tools) {
            (Guide::Use(counts), Tools::Gnu { .. }) => copy_counts(counts, &place.source),
            _ => Ok(()),
        }
    }

    /// The copy of the sources as a command line, without the excluded top-level folders: the runs are often there.
    fn copy_call(&self, to: &Path) -> Call {
        let call = Call::new("copy-sources", "find", "/").arg(&self.recipe.source);
        let call = call.args(["-mindepth", "1", "-maxdepth", "1"]);
        let call = LEFT_OUT.iter().fold(call, |call, name| call.args(["!", "-name", name]));
        let call =
            self.left_out.iter().fold(call, |call, folder| call.args(["!", "-path"]).arg(as_pattern(folder)));
        call.args(["-exec", "cp", "-a", "-t"]).arg(to).args(["--", "{}", "+"])
    }

    /// A requested instrumented build must be instrumented.
    fn refuse_other_counting(&self, request: &BuildRequest, built: &Built) -> Result<()> {
        match (&self.toolchain.tools, &built.how) {
            // All of the code may be in a library.
            (Tools::Llvm { .. }, How::Recipe { log, .. })
                if request.guide.counts() && !built.facts.instrumented =>
            {
                let libraries = Libraries::from_log(log);
                let mut facts = libraries.paths().filter_map(|path| file_facts(path).ok());
                let counts = facts.any(|facts| facts.instrumented);
                refuse_if(!counts, || Refusal::NotInstrumented { binary: built.executable.clone() })
            }
            (Tools::Llvm { .. }, _) => refuse_other_counting(request, built),
            (Tools::Gnu { .. }, How::Recipe { log, .. }) if request.guide.counts() => {
                let made = log.iter().filter(|entry| entry.saw_flags()).flat_map(|entry| &entry.outputs);
                let noted = made.map(|output| output.path.with_extension("gcno")).any(|note| note.is_file());
                let linked = log.iter().any(|entry| entry.saw_flags() && entry.action.links());
                refuse_if(!noted && !linked, || {
                    RecipeRefusal::DoesNotCount { program: built.executable.clone() }.into()
                })
            }
            _ => Ok(()),
        }
    }

    fn gcov<'g>(&'g self, gcov: &'g Path, gcov_tool: &'g Path) -> Gcov<'g> {
        Gcov { runner: self.runner, gcov, gcov_tool, work: &self.work }
    }

    /// Counts, or samples if a file of samples is named.
    fn merge_llvm(&self, profdata: &Path, raw: &[(PathBuf, f64)]) -> Result<Merged> {
        let has_samples = |path: &Path| path.is_file() && !path.extension().is_some_and(of_counts);
        if raw.is_empty() || !raw.iter().all(|(path, _)| has_samples(path)) {
            return merge_raw(self.runner, profdata, &self.work, raw);
        }
        let weights: Vec<f64> = raw.iter().map(|(_, weight)| *weight).collect();
        let input = |((path, _), weight): (&(PathBuf, f64), u64)| {
            let (path, bytes) = sized(path)?;
            Ok(MergeInput { path, bytes, weight })
        };
        let inputs = raw.iter().zip(whole_weights(&weights)?).map(input).collect::<Result<Vec<_>>>()?;
        merge_files(self.runner, profdata, &self.work, &inputs, true)
    }

    /// Also returns the number of functions that ran.
    fn prove_counts(
        &self,
        profdata: &Path,
        merged: &Merged,
        counting: &Built,
    ) -> Result<(ProfileProof, usize)> {
        let profile = read_profile(self.runner, profdata, &self.work, &merged.path)?;
        let mut in_binary = elf::instrumented_functions(&counting.executable)?;
        if let How::Recipe { log, .. } = &counting.how {
            // Each library of the build counts separately, and all of their counts are merged.
            for library in Libraries::from_log(log).paths() {
                in_binary.extend(elf::instrumented_functions(library)?);
            }
        }
        if counted_after_inlining(counting) {
            // Functions of the first round may have been inlined since; those of the second belong to this very program.
            let second = profile.functions.iter().filter(|function| function.context_sensitive).cloned();
            let second = crate::profile::Profile { functions: second.collect(), ..profile.clone() };
            let ran = second.functions.iter().any(|function| function.max_count > 0);
            refuse_if(!ran, || Refusal::NotContextSensitive { file: merged.path.clone() })?;
            proof::holds(&second, &merged.path, &in_binary, &counting.executable)?;
        } else {
            proof::holds(&profile, &merged.path, &in_binary, &counting.executable)?;
        }
        let told = |function: &crate::profile::Function| HotFunction {
            name: hone_record::without_hash(function.symbol()),
            max_count: function.max_count,
        };
        let hot: Vec<HotFunction> = profile.hot().into_iter().map(told).collect();
        // Everything that a recipe compiles belongs to the target.
        let of_target = u32::try_from(hot.len()).unwrap_or(u32::MAX);
        let ran = profile.functions.iter().filter(|function| function.max_count > 0).count();
        Ok((proof_of(merged, &profile, hot, of_target), ran))
    }

    /// Also returns the number of functions that ran.
    fn prove_samples(
        &self,
        profdata: &Path,
        merged: &Merged,
        sampled: &Built,
    ) -> Result<(ProfileProof, usize)> {
        let text = as_text(self.runner, profdata, &self.work, &merged.path, true)?;
        let samples =
            Samples::parse(&text).map_err(|reason| anyhow::anyhow!("{}: {reason}", merged.path.display()))?;
        let in_binary = preflight::function_names(&sampled.executable)?.names.into_iter().collect();
        samples.prove(&merged.path, &in_binary, &sampled.executable)?;
        let hot_functions = samples.hot();
        let ran = samples.functions.iter().filter(|(_, total)| *total > 0).count();
        let proof = ProfileProof {
            path: merged.path.display().to_string(),
            sha256: merged.sha256.clone(),
            bytes: merged.bytes,
            raw_files: merged.raw_files,
            raw_bytes: merged.raw_bytes,
            level: "samples".to_owned(),
            functions: samples.functions.len() as u64,
            max_count: samples.functions.first().map_or(0, |(_, total)| *total),
            total_count: samples.total(),
            hot_functions_of_target: u32::try_from(hot_functions.len()).unwrap_or(u32::MAX),
            hot_functions,
        };
        Ok((proof, ran))
    }

    /// Losses that LLVM reports, and those that it does not: a file-local function is known by the file's path, so in another copy of the
    /// sources it is another function. Its counts are lost, and LLVM only reports an unknown function. The number of unknown functions
    /// means nothing: a build may make other programs than the trained one.
    fn applied_by_llvm(&self, profdata: &Path, logs: &[String], proven: &Proven) -> Result<ProfileApplied> {
        let mut applied = diagnostics::weighed(logs, proven.proof.total_count)?;
        let not_found = diagnostics::not_found(logs);
        let path = Path::new(&proven.proof.path);
        if !not_found.is_empty() && !is_samples(path) {
            let profile = read_profile(self.runner, profdata, &self.work, path)?;
            let lost = of_other_copies(&profile.functions, &not_found, &self.work);
            applied.discarded_functions += lost.len() as u64;
            applied.discarded_count =
                lost.iter().fold(applied.discarded_count, |sum, lost| sum.saturating_add(lost.total_count));
            applied.discarded_weight = diagnostics::share(applied.discarded_count, proven.proof.total_count);
            applied.messages.extend(lost.first().map(|lost| {
                format!(
                    "{}: its counts have this name, but it is now compiled from another folder",
                    lost.name
                )
            }));
        }
        diagnostics::fits(&applied, u64::MAX)?;
        Ok(applied)
    }

    fn call(
        &self,
        words: &[String],
        request: &BuildRequest,
        source: &Path,
        names: &Path,
        orders: &Path,
    ) -> Result<Call> {
        let jobs = self.recipe.jobs.max(1).to_string();
        let mut words = words.iter().map(|word| word.replace("{jobs}", &jobs));
        let program = words.next().context("a command of the build is empty")?;
        let mut path = OsString::from(names);
        if let Some(rest) = env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        let mut call = Call::new(format!("build-{}", request.variant), program, source).args(words);
        call = call.env("PATH", path).env(ORDERS, orders).limit(LIMIT);
        call = call.env("CC", names.join("cc")).env("AR", &self.toolchain.ar);
        call = call.env("RANLIB", &self.toolchain.ranlib).env("NM", &self.toolchain.nm);
        if self.toolchain.cxx.is_some() {
            call = call.env("CXX", names.join("c++"));
        }
        // An object from a cache never reaches a compiler; and programs that a build runs must not count.
        Ok(call.env("CCACHE_DISABLE", "1").env_remove("LLVM_PROFILE_FILE"))
    }
}

impl Builder for RecipeBuilder<'_> {
    fn kind(&self) -> TargetKind {
        if self.toolchain.is_clang() { TargetKind::Clang } else { TargetKind::Gcc }
    }

    /// Builds from a fresh copy of the sources; removes what an earlier build of this name has left.
    fn build(&self, request: &BuildRequest) -> Result<Built> {
        self.fits(request)?;
        let place = self.place(request);
        self.lay_out(request, &place)?;
        let orders = self.orders(request, &place);
        let file = orders.install(&place.names, &self.hone)?;
        if request.guide.counts() {
            build_dump_object(self.runner, &self.toolchain.cc, &place.aids, self.profile_kind())?;
        }
        let (began, start) = (SystemTime::now(), Instant::now());
        let mut commands = Vec::new();
        for words in &self.recipe.commands {
            let call = self.call(words, request, &place.source, &place.names, &file)?;
            if let Err(error) = self.runner.run(&call) {
                let lacks = lacks_of_a_copy(&error.to_string(), &place.source);
                return Err(lacks.into_iter().fold(error.into(), anyhow::Error::context));
            }
            commands.push(call.to_string());
        }
        let build_s = start.elapsed().as_secs_f64();
        let executable = place.source.join(&self.recipe.program);
        if !executable.is_file() {
            return Err(refused(RecipeRefusal::NoProgram { program: executable }));
        }
        if is_script(&executable) {
            return Err(refused(RecipeRefusal::Script { program: executable }));
        }
        let facts = file_facts(&executable)?;
        let log = read_log(&fs::read_to_string(&orders.log).unwrap_or_default())?;
        let of_log = Libraries::from_log(&log);
        let libraries = match of_log.needed_by(&executable) {
            Ok(loaded) => loaded.into_iter().map(Library::from_path).collect::<Result<Vec<_>>>()?,
            Err(library) => {
                let (program, library) = (executable, library.clone());
                return Err(refused(RecipeRefusal::LibraryLeftBehind { program, library }));
            }
        };
        let coverage = covered(&log, &executable, &facts, began, &place.source)?;
        let built = Built {
            variant: request.variant.clone(),
            executable,
            commands,
            build_s,
            fresh: false,
            // The output of the build's own commands may lack messages: ninja prints them to its standard output, libtool drops some.
            stderr_paths: vec![orders.words],
            facts,
            how: How::Recipe { folder: place.source, log, coverage, libraries },
        };
        self.refuse_other_counting(request, &built)?;
        Ok(built)
    }

    /// The wrappers' flags are in a comment, because no command line contains them.
    fn commands(&self, request: &BuildRequest) -> Result<Vec<String>> {
        self.fits(request)?;
        let place = self.place(request);
        let orders = self.orders(request, &place);
        let folder = Call::new("make-folder", "mkdir", "/").args(["-p", "--"]).arg(&place.source);
        let added = |flags: &[String]| if flags.is_empty() { "nothing".to_owned() } else { flags.join(" ") };
        let installed = orders.install_lines(&place.names, &self.hone)?;
        let by_hone = request.guide.counts().then(|| {
            format!(
                "# first, Hone compiles profile_dump.o into {}; the build links it in",
                place.aids.display()
            )
        });
        let note = format!(
            "# the compiler wrappers in {} add these flags to compile commands: {}; to link commands: {}",
            place.names.display(),
            added(&orders.compile),
            added(&[orders.link, orders.program].concat())
        );
        let file = Orders::file(&place.names);
        let builds = self
            .recipe
            .commands
            .iter()
            .map(|words| Ok(self.call(words, request, &place.source, &place.names, &file)?.to_string()));
        let copied = [folder.to_string(), self.copy_call(&place.source).to_string()];
        let lines = copied.into_iter().chain(installed).chain([note]).chain(by_hone);
        lines.map(Ok).chain(builds).collect()
    }

    /// Counts of gcc go below a prefix, which separates those of one training from those of the next, and from those of programs that the
    /// build itself ran.
    fn training_env(&self, raw: &Path) -> Vec<(OsString, OsString)> {
        match self.kind() {
            TargetKind::Gcc => {
                vec![("GCOV_PREFIX".into(), raw.into()), ("GCOV_PREFIX_STRIP".into(), "0".into())]
            }
            _ => vec![profile_env(raw)],
        }
    }

    fn profile_files(&self, _built: &Built, raw: &Path) -> ProfileFiles {
        ProfileFiles { kind: self.profile_kind(), folder: raw.to_path_buf() }
    }

    /// Each instrumented shared library has its own runtime, which the program's object does not control.
    fn has_dump_object(&self, counting: &Built) -> bool {
        let How::Recipe { log, .. } = &counting.how else { return false };
        let Some(link) = link_of(log, &counting.executable, &counting.facts.sha256) else { return false };
        link.added.iter().any(|word| word.ends_with(DUMP_OBJECT))
            && Libraries::from_log(log).paths().next().is_none()
    }

    fn tally(&self, raw: &Path, counting: &Built) -> Result<Tally> {
        let How::Recipe { folder, .. } = &counting.how else {
            bail!("{} was not built by a recipe", counting.executable.display())
        };
        match &self.toolchain.tools {
            Tools::Llvm { profdata, .. } => tally_of(self.runner, profdata, &self.work, raw),
            Tools::Gnu { gcov, gcov_tool } => self.gcov(gcov, gcov_tool).tally(raw, folder),
        }
    }

    fn merge(&self, raw: &[(PathBuf, f64)]) -> Result<Merged> {
        match &self.toolchain.tools {
            Tools::Llvm { profdata, .. } => self.merge_llvm(profdata, raw),
            Tools::Gnu { gcov, gcov_tool } => self.gcov(gcov, gcov_tool).merge(raw),
        }
    }

    fn converter(&self) -> Result<Converter> {
        self.can(&Guide::Traceable)?;
        Converter::beside(&self.toolchain)
    }

    fn prove_profile(&self, merged: &Merged, counting: &Built) -> Result<Proven> {
        let How::Recipe { folder, coverage, .. } = &counting.how else {
            bail!("{} was not built by a recipe", counting.executable.display())
        };
        let (proof, ran) = match &self.toolchain.tools {
            Tools::Llvm { profdata, .. } if is_samples(&merged.path) => {
                self.prove_samples(profdata, merged, counting)?
            }
            Tools::Llvm { profdata, .. } => self.prove_counts(profdata, merged, counting)?,
            Tools::Gnu { gcov, gcov_tool } => self.gcov(gcov, gcov_tool).prove(merged, counting, folder)?,
        };
        let code_inside = code_inside(coverage, ran, proof.functions);
        Ok(Proven { proof, code_inside })
    }

    fn prove_applied(&self, shaped: &Built, plain: &Built, proven: &Proven) -> Result<ProfileApplied> {
        let logs = words_of(shaped)?;
        let applied = match (&self.toolchain.tools, &shaped.how) {
            (Tools::Gnu { .. }, How::Recipe { log, folder, .. }) => {
                gcov::applied(&logs, log, &proven.proof, &shaped.executable, folder)?
            }
            (Tools::Llvm { profdata, .. }, _) => self.applied_by_llvm(profdata, &logs, proven)?,
            (Tools::Gnu { .. }, _) => {
                bail!("{} was not built by a recipe", shaped.executable.display())
            }
        };
        refuse_same_code(shaped, plain)?;
        Ok(applied)
    }

    fn receipts(&self) -> Vec<ToolReceipt> {
        self.toolchain.receipts.clone()
    }
}

/// Functions of a profile that are not found because their sources have another path in this copy.
fn of_other_copies<'a>(
    functions: &'a [crate::profile::Function],
    not_found: &BTreeSet<(&str, &str)>,
    work: &Path,
) -> Vec<&'a crate::profile::Function> {
    // WORK/VARIANT/PLACE
    let place = |path: &str| -> Option<PathBuf> {
        Some(Path::new(path).strip_prefix(work).ok()?.components().skip(1).collect())
    };
    let is_lost = |function: &&crate::profile::Function| {
        let Some((source, symbol)) = crate::profile::unit_and_symbol(&function.name) else { return false };
        let Some(there) = place(source) else { return false };
        let mut same = not_found.iter().filter(|(_, name)| *name == symbol);
        function.total_count > 0
            && same.any(|(here, _)| *here != source && place(here).as_ref() == Some(&there))
    };
    functions.iter().filter(is_lost).collect()
}

fn of_counts(ending: &OsStr) -> bool {
    ending == "profraw" || ending == "profdata"
}

fn is_samples(profile: &Path) -> bool {
    profile.extension().is_some_and(|ending| ending == SAMPLES_ENDING)
}

/// Whether a program was built for the second round of counts.
fn counted_after_inlining(counting: &Built) -> bool {
    let How::Recipe { log, .. } = &counting.how else { return false };
    log.iter().any(|entry| entry.added.iter().any(|flag| flag == "-fcs-profile-generate"))
}

/// The code that the profile covers, and the largest parts that it does not cover. Both exclude the counting runtime, which no other build
/// has.
fn code_inside(coverage: &Coverage, ran: usize, functions: u64) -> Vec<CodeInside> {
    const NAMED: usize = 20;
    let (runtime, others): (Vec<_>, Vec<_>) =
        coverage.others.iter().partition(|other| is_of_runtime(&other.object));
    let sum = |objects: &[&Unshaped]| objects.iter().map(|object| object.text_bytes).sum::<u64>();
    let text_bytes = coverage.text_bytes.saturating_sub(sum(&runtime));
    let share = diagnostics::share(coverage.shaped_bytes, text_bytes) * 100.0;
    let mut inside = vec![CodeInside {
        name: "compiled by the build".to_owned(),
        profiled: true,
        how: format!(
            "the compiler made {share:.1} % of the text with the profile's flags; {ran} of the profile's \
             {functions} functions ran in the training"
        ),
    }];
    let (named, rest) = others.split_at(others.len().min(NAMED));
    inside.extend(named.iter().map(|other| CodeInside {
        name: other.object.clone(),
        profiled: false,
        how: format!("{} bytes of text: {}", other.text_bytes, other.reason),
    }));
    if !rest.is_empty() {
        inside.push(CodeInside {
            name: format!("{} more objects", rest.len()),
            profiled: false,
            how: format!("{} bytes of text", sum(rest)),
        });
    }
    inside
}

/// The libraries by which programs of clang and gcc count.
fn is_of_runtime(object: &str) -> bool {
    let file = object.split('(').next().unwrap_or(object).rsplit('/').next().unwrap_or(object);
    file.starts_with("libclang_rt.profile") || file == "libgcov.a"
}

fn is_script(program: &Path) -> bool {
    let mut head = [0; 2];
    let read = fs::File::open(program).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"#!"
}

fn refused(refusal: RecipeRefusal) -> anyhow::Error {
    Refusal::Recipe(refusal).into()
}

/// If more of the text than this was compiled before, the build is a variant only in name: a choice, not a constant of nature.
const MOST_THERE: f64 = 0.5;

fn covered(
    log: &[Entry],
    program: &Path,
    facts: &FileFacts,
    began: SystemTime,
    sources: &Path,
) -> Result<Coverage> {
    let not_seen = || {
        let program = program.to_path_buf();
        let was_there =
            program.metadata().and_then(|facts| facts.modified()).is_ok_and(|modified| modified < began);
        refused(match was_there {
            true => RecipeRefusal::WasThere { program },
            false => RecipeRefusal::NotSeen { program },
        })
    };
    let link = link_of(log, program, &facts.sha256).ok_or_else(not_seen)?;
    let file = link.map.clone().ok_or_else(not_seen)?;
    let bytes = fs::read(&file).with_context(|| format!("the link map {} can't be read", file.display()))?;
    let map = LinkMap::parse(&String::from_utf8_lossy(&bytes));
    let map = map.ok_or_else(|| refused(RecipeRefusal::OtherMap { map: file }))?;
    let mut coverage = coverage(&map, link, log, began);
    // Hone's additions do not belong to the program.
    coverage.others.retain(|other| {
        let is_ours = other.object.ends_with(DUMP_OBJECT);
        coverage.text_bytes -= if is_ours { other.text_bytes } else { 0 };
        !is_ours
    });
    if coverage.shaped_bytes == 0 {
        let largest = coverage.others.first().map(|other| format!("{}: {}", other.object, other.reason));
        let largest = largest.unwrap_or_else(|| "no object".to_owned());
        return Err(refused(RecipeRefusal::NothingShaped { program: program.to_path_buf(), largest }));
    }
    let was_there = |other: &&Unshaped| {
        matches!(other.reason, Reason::Prebuilt { .. }) && link.cwd.join(&other.object).starts_with(sources)
    };
    let there: Vec<&Unshaped> = coverage.others.iter().filter(was_there).collect();
    let there_bytes: u64 = there.iter().map(|other| other.text_bytes).sum();
    let share = diagnostics::share(there_bytes, there_bytes.saturating_add(coverage.shaped_bytes));
    if let Some(largest) = there.first().filter(|_| share > MOST_THERE) {
        let (program, largest) = (program.to_path_buf(), largest.object.clone());
        return Err(refused(RecipeRefusal::MostlyThere { program, percent: share * 100.0, largest }));
    }
    Ok(coverage)
}

/// What a build may miss in a copy of its sources; nothing if it failed for another reason.
fn lacks_of_a_copy(said: &str, copy: &Path) -> Option<String> {
    const MOST: usize = 3;
    let mut lacks = Vec::new();
    if said.contains("not a git repository") {
        lacks.push("the history (.git) is not copied".to_owned());
    }
    let mut astray = Vec::new();
    links_astray(copy, MOST, &mut astray);
    lacks.extend(astray.iter().map(|link| format!("{} is a dangling link", link.display())));
    (!lacks.is_empty()).then(|| {
        format!(
            "the build failed in a copy of the sources, where {}\n  next: pass the version to the build as \
             an argument; set `source` to the folder that contains all targets of the sources' links",
            lacks.join(", ")
        )
    })
}

/// Dangling symbolic links in a tree.
fn links_astray(folder: &Path, most: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if found.len() >= most {
            return;
        }
        match kind {
            Ok(kind) if kind.is_dir() => links_astray(&path, most, found),
            Ok(kind) if kind.is_symlink() && !path.exists() => found.push(path),
            _ => {}
        }
    }
}

/// A path for `find -path`, which takes patterns.
fn as_pattern(path: &Path) -> String {
    let mut pattern = String::new();
    for sign in path.to_string_lossy().chars() {
        if "*?[\\".contains(sign) {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern
}
