//! Reasons for which a build by a recipe, or what is to be built, is not used.

use std::path::PathBuf;

/// A build, or what is to be built, that must not be used. It is inside of [`crate::Refusal::Recipe`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeRefusal {
    /// The commands did not make the program.
    #[error("the build ended well, but {} is not there\n  next: name the program as it lies in the source folder after the build", program.display())]
    NoProgram {
        /// Where it should be.
        program: PathBuf,
    },
    /// The program would run with another library than the one it was built with.
    #[error(
        "{} finds {}, which the build has made, beside itself only ($ORIGIN, or no path at all): \
         where it is measured it would run without it, or with the system's\n  next: link it statically (Meson: -Ddefault_library=static, CMake: \
         -DBUILD_SHARED_LIBS=OFF, autotools: --disable-shared), or by an absolute path (-Wl,-rpath,FOLDER)",
        program.display(), library.display()
    )]
    LibraryLeftBehind {
        /// The program.
        program: PathBuf,
        /// The library.
        library: PathBuf,
    },
    /// No link of the program went through a stand-in.
    #[error(
        "no compiler that Hone stands in for has linked {}: the build does not take its compilers from CC, CXX or PATH, or a cache has \
         answered\n  next: pass $CC and $CXX on in the build's commands; switch compiler caches off", program.display()
    )]
    NotSeen {
        /// The program.
        program: PathBuf,
    },
    /// The program was there before the build, which did nothing to it.
    #[error(
        "{} came along in the copy of the sources, and the build had nothing to do\n  next: build from clean sources: run `make clean` or \
         `git clean -xn` (which only lists) in them, or begin the build's commands with one that cleans up", program.display()
    )]
    WasThere {
        /// The program.
        program: PathBuf,
    },
    /// Most of the program's text came along in the copy of the sources.
    #[error(
        "{percent:.0} % of the sources' own text in {} is of objects that came along in the copy of them, such as {largest}: no \
         flag of a variant reaches it\n  next: build from clean sources (`make clean`), or begin the build's commands with one that cleans up",
        program.display()
    )]
    MostlyThere {
        /// The program.
        program: PathBuf,
        /// Their share of the text that is not of other places or compilers.
        percent: f64,
        /// The largest of them.
        largest: String,
    },
    /// A folder that a build can't name.
    #[error(
        "the path {} has a blank or is no UTF-8, and makefiles part the name of their compiler there\n  next: name another folder \
         for the runs (--output)", folder.display()
    )]
    Blank {
        /// The folder.
        folder: PathBuf,
    },
    /// A script in the place of the program.
    #[error(
        "{} is a script and no program: libtool writes one that finds the program and its libraries where they were built\n  next: \
         configure with --disable-shared, or name the program itself (in .libs)", program.display()
    )]
    Script {
        /// The script.
        program: PathBuf,
    },
    /// The link's map can't be read.
    #[error("the link map {} is neither of lld nor of GNU ld\n  next: link with one of these", map.display())]
    OtherMap {
        /// The map.
        map: PathBuf,
    },
    /// The training left no counts of gcc.
    #[error(
        "no counts (*.gcda) in {}: the program was killed before it wrote them, or the program that ran was not the counting one\n  \
         next: let it return from `main` or call `exit` (SIGTERM does, with a handler), and start it with the GCOV_PREFIX that was \
         planned", folder.display()
    )]
    NoCounts {
        /// Where they should be.
        folder: PathBuf,
    },
    /// Some objects were made outside of the copy of the sources.
    #[error(
        "the object of {} was made outside of the copy of the sources, where no other variant finds its counts\n  next: let the \
         build's commands make all objects below the source folder", file.display()
    )]
    CountsOutside {
        /// Where gcc would have put the counts.
        file: PathBuf,
    },
    /// The counts are of another build.
    #[error(
        "the counts in {} are of another build: gcc's notes of {} belong to {known} of {files} files\n  next: train this \
         counting build, and give it a raw folder of its own", folder.display(), binary.display()
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
        "gcc found no counts for any object of {}: it looks for them beside the object that it makes, under the object's \
         name\n  next: build with the same commands as the counting build, in folders of the same names; Hone puts the counts there \
         before the build, so its commands must delete no *.gcda (as many a `make clean` does)", program.display()
    )]
    CountsNotFound {
        /// The program.
        program: PathBuf,
    },
    /// The counting build left no notes of gcc, so nothing was compiled to count.
    #[error(
        "{} does not count: gcc has left no notes (*.gcno) beside its objects\n  next: look for -fno-profile-generate or \
         -fno-test-coverage in the build's own flags", program.display()
    )]
    DoesNotCount {
        /// The program.
        program: PathBuf,
    },
    /// None of the program's text was compiled under the flags.
    #[error(
        "no object of {} was made by a compiler that Hone stands in for; most of its text is in {largest}\n  next: build from clean \
         sources, without objects that were there before", program.display()
    )]
    NothingShaped {
        /// The program.
        program: PathBuf,
        /// The object with the most text, and why.
        largest: String,
    },
}
