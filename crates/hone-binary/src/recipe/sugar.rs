//! Commands of the common build systems, so that users need not write them. Pure: the results are the commands of a [`super::Recipe`], with
//! its `{jobs}`, for the copy of the sources.
//!
//! CMake and Meson build in [`BUILD_FOLDER`], whatever the project calls its own build folder: the copy may contain that one, with a cache
//! that names its original folder.

/// The build folder of CMake and Meson, below the copy of the sources; program paths begin with it.
pub const BUILD_FOLDER: &str = "hone-build";

/// A project that CMake builds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CMake {
    /// More arguments of the configuring `cmake`, such as `-DENABLE_X=ON`. They come last, so they win.
    pub arguments: Vec<String>,
    /// The targets to build; everything if empty.
    pub target: Option<String>,
}

/// A project that Meson builds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meson {
    /// More arguments of `meson setup`, such as `-Dx=enabled`.
    pub arguments: Vec<String>,
    /// The targets to build; everything if empty.
    pub target: Option<String>,
}

/// A project that make builds, with or without a configure script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Make {
    /// Commands before it, such as `./configure` and its arguments.
    pub configure: Option<Vec<String>>,
    /// More arguments of make, such as `BUILD_TLS=no` or `-C src`.
    pub arguments: Vec<String>,
    /// The goals; the makefile's own first goal if empty.
    pub target: Option<String>,
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Commands of CMake. Release code with line information, unless the arguments name another build type. No launcher comes before the
/// compilers, because an object from a cache never reaches a compiler.
pub fn cmake(project: &CMake) -> Vec<Vec<String>> {
    let mut configure = owned(&[
        "cmake",
        "-S",
        ".",
        "-B",
        BUILD_FOLDER,
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_C_COMPILER_LAUNCHER=",
        "-DCMAKE_CXX_COMPILER_LAUNCHER=",
    ]);
    configure.extend(project.arguments.iter().cloned());
    let mut build = owned(&["cmake", "--build", BUILD_FOLDER, "--parallel", "{jobs}"]);
    if let Some(target) = &project.target {
        build.extend(["--target".to_owned(), target.clone()]);
    }
    vec![configure, build]
}

/// Commands of Meson. Optimised code with line information, and the project's own libraries inside the program, unless the arguments say
/// otherwise: Meson's own defaults are none of these, and it accepts the same option only once.
pub fn meson(project: &Meson) -> Vec<Vec<String>> {
    let says = |argument: &String, options: &[&str]| {
        let name = argument.trim_start_matches("--").trim_start_matches("-D");
        options.iter().any(|known| name.replace('-', "_").split('=').next() == Some(known))
    };
    let says = |options: &[&str]| project.arguments.iter().any(|argument| says(argument, options));
    let mut setup = owned(&["meson", "setup", BUILD_FOLDER]);
    if !says(&["buildtype", "optimization"]) {
        setup.push("-Dbuildtype=debugoptimized".to_owned());
    }
    if !says(&["default_library"]) {
        // A program finds a library next to itself by a relative path, but it runs from elsewhere.
        setup.push("-Ddefault_library=static".to_owned());
    }
    setup.extend(project.arguments.iter().cloned());
    let mut compile = owned(&["meson", "compile", "-C", BUILD_FOLDER, "-j", "{jobs}"]);
    compile.extend(project.target.clone());
    vec![setup, compile]
}

/// Commands of a configure script and of make. Both have their own defaults, which are -O2 where autoconf made the script.
pub fn make(project: &Make) -> Vec<Vec<String>> {
    let mut build = owned(&["make", "-j{jobs}"]);
    build.extend(project.arguments.iter().cloned());
    build.extend(project.target.clone());
    project.configure.iter().cloned().chain([build]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(commands: &[Vec<String>]) -> Vec<String> {
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn cmake_builds_release_code_out_of_its_sources_and_the_users_arguments_win() {
        let project =
            CMake { arguments: owned(&["-DCMAKE_BUILD_TYPE=Release"]), target: Some("server".into()) };
        let lines = lines(&cmake(&project));
        assert!(lines[0].starts_with("cmake -S . -B hone-build "), "{lines:?}");
        let (ours, theirs) = (lines[0].find("=RelWithDebInfo"), lines[0].find("=Release"));
        assert!(ours.is_some() && ours < theirs, "{lines:?}");
        assert_eq!(lines[1], "cmake --build hone-build --parallel {jobs} --target server");
        assert!(!cmake(&CMake::default())[1].contains(&"--target".to_owned()));
    }

    #[test]
    fn meson_is_told_to_optimise_once() {
        let own = |arguments: &[&str]| {
            let project = Meson { arguments: owned(arguments), target: None };
            lines(&meson(&project))[0].contains("-Dbuildtype=debugoptimized")
        };
        assert!(own(&[]) && own(&["-Dtests=false", "-Dbuildtype_of_docs=x"]));
        for said in ["-Dbuildtype=release", "--buildtype=plain", "-Doptimization=3", "--optimization=s"] {
            assert!(!own(&[said]), "{said}");
        }
        let library = |arguments: &[&str]| {
            let project = Meson { arguments: owned(arguments), target: None };
            lines(&meson(&project))[0].contains("=static")
        };
        assert!(
            library(&[]) && !library(&["--default-library=shared"]) && !library(&["-Ddefault_library=both"])
        );
        // The value may be the next word.
        assert!(!own(&["--buildtype", "release"]));
        let project = Meson { target: Some("server".into()), ..Meson::default() };
        assert_eq!(lines(&meson(&project))[1], "meson compile -C hone-build -j {jobs} server");
    }

    #[test]
    fn make_comes_behind_its_configure_script() {
        let project = Make {
            configure: Some(owned(&["./configure", "--prefix=/a b"])),
            arguments: owned(&["-C", "src", "BUILD_TLS=no"]),
            target: Some("redis-server".into()),
        };
        let commands = make(&project);
        assert_eq!(commands[0], ["./configure", "--prefix=/a b"]);
        assert_eq!(commands[1].join(" "), "make -j{jobs} -C src BUILD_TLS=no redis-server");
        assert_eq!(make(&Make::default()), [["make", "-j{jobs}"]]);
    }
}
