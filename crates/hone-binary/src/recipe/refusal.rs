//! Reasons why Hone does not use a build by a recipe, or its input.

use std::path::PathBuf;

/// A build, or its input, that must not be used. It is inside of [`crate::Refusal::Recipe`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeRefusal {
    /// The commands did not make the program.
    #[error("the build succeeded, but {} does not exist\n  next: give the program's path in the source \
        folder after the build", program.display())]
    NoProgram {
        /// Where it should be.
        program: PathBuf,
    },
    /// The program would run with another library than the one of its build.
    #[error(
        "{} finds {}, which the build has made, only in its own folder ($ORIGIN, or no path at all): the \
         measured program would run without it, or with the system's library\n  next: link it statically \
         (Meson: -Ddefault_library=static, CMake: -DBUILD_SHARED_LIBS=OFF, autotools: --disable-shared), or \
         by an absolute path (-Wl,-rpath,FOLDER)",
        program.display(), library.display()
    )]
    LibraryLeftBehind {
        /// The program.
        program: PathBuf,
        /// The library.
        library: PathBuf,
    },
    /// No link of the program went through a compiler wrapper.
    #[error(
        "no compiler that Hone wraps has linked {}: the build does not take its compilers from CC, CXX or \
         PATH, or it used a compiler cache\n  next: pass $CC and $CXX on in the build's commands; switch \
         compiler caches off", program.display()
    )]
    NotSeen {
        /// The program.
        program: PathBuf,
    },
    /// The program existed before the build, which did nothing to it.
    #[error(
        "the copy of the sources already contains {}, so the build had nothing to do\n  next: build from \
         clean sources: run `make clean` or `git clean -xn` (which only lists) in them, or begin the \
         build's commands with one that cleans up", program.display()
    )]
    WasThere {
        /// The program.
        program: PathBuf,
    },
    /// Most of the program's text was already in the copy of the sources.
    #[error(
        "{percent:.0} % of the sources' own text in {} comes from objects that existed before the build, \
         such as {largest}: no flag of a variant reaches it\n  next: build from clean sources (`make \
         clean`), or begin the build's commands with one that cleans up",
        program.display()
    )]
    MostlyThere {
        /// The program.
        program: PathBuf,
        /// Their share of the text, without text from other places or compilers.
        percent: f64,
        /// The largest of them.
        largest: String,
    },
    /// A folder that a build can't name.
    #[error(
        "the path {} contains a blank or is not UTF-8, and makefiles split the name of their compiler at a \
         blank\n  next: name another folder for the runs (--output)", folder.display()
    )]
    Blank {
        /// The folder.
        folder: PathBuf,
    },
    /// A script instead of the program.
    #[error(
        "{} is a script, not a program: libtool writes such a script to find the program and its libraries \
         in the build folder\n  next: configure with --disable-shared, or name the program itself (in .libs)", program.display()
    )]
    Script {
        /// The script.
        program: PathBuf,
    },
    /// The link's map can't be read.
    #[error("neither lld nor GNU ld wrote the link map {}\n  next: link with one of these", map.display())]
    OtherMap {
        /// The map.
        map: PathBuf,
    },
    /// The training left no gcc counts.
    #[error(
        "no counts (*.gcda) in {}: the program was killed before it wrote them, or the program was not \
         instrumented\n  next: let it return from `main` or call `exit` (SIGTERM does, with a handler), and \
         start it with the planned GCOV_PREFIX", folder.display()
    )]
    NoCounts {
        /// Where they should be.
        folder: PathBuf,
    },
    /// Some objects were made outside the copy of the sources.
    #[error(
        "the build made the object of {} outside of the copy of the sources, where no other variant finds \
         its counts\n  next: let the build's commands make all objects below the source folder", file.display()
    )]
    CountsOutside {
        /// Where gcc would have put the counts.
        file: PathBuf,
    },
    /// The counts are of another build.
    #[error(
        "the counts in {} are of another build: gcc's notes of {} belong to {known} of {files} files\n  \
         next: train this instrumented build, and give it a separate raw folder", folder.display(), binary.display()
    )]
    OtherCounts {
        /// The merged counts.
        folder: PathBuf,
        /// The counting program.
        binary: PathBuf,
        /// Files of counts that belong to it.
        known: usize,
        /// Files of counts.
        files: usize,
    },
    /// No object was compiled with counts.
    #[error(
        "gcc found no counts for any object of {}: it looks for them next to the object, under the object's \
         name\n  next: build with the same commands as the instrumented build, in folders of the same \
         names; Hone puts the counts there before the build, so its commands must not delete any *.gcda (as \
         many a `make clean` does)", program.display()
    )]
    CountsNotFound {
        /// The program.
        program: PathBuf,
    },
    /// The instrumented build left no gcc notes, so nothing was instrumented.
    #[error(
        "{} is not instrumented: gcc has left no notes (*.gcno) next to its objects\n  next: look for \
         -fno-profile-generate or -fno-test-coverage in the build's own flags", program.display()
    )]
    DoesNotCount {
        /// The program.
        program: PathBuf,
    },
    /// None of the program's text was compiled with the flags.
    #[error(
        "no compiler that Hone wraps made an object of {}; most of its text is in {largest}\n  next: build \
         from clean sources, without objects of an earlier build", program.display()
    )]
    NothingShaped {
        /// The program.
        program: PathBuf,
        /// The object with the most text, and why.
        largest: String,
    },
}
