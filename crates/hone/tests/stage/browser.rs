//! A real Chromium, driven over its debugging pipe: keys are pressed, pages are looked at as they are drawn, and every request is seen.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part of the browser")]
#![expect(clippy::disallowed_methods, reason = "tests start a browser as its users do")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::stage::tools::find;

/// What takes longer is broken. Machines that test are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder for pictures, if HONE_PICTURES names one: for people who look at them.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("HONE_PICTURES").map(PathBuf::from)
}

/// Saves a file in the folder for pictures, if there is one.
pub fn keep(name: &str, bytes: &[u8]) {
    let Some(folder) = pictures() else { return };
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}

/// A browser with one page; ended on drop.
pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    number: u64,
    session: String,
    /// Addresses of all requests.
    pub asked: Vec<String>,
    /// What the browser complains of: policies that were broken, scripts that failed.
    pub complaints: Vec<String>,
    loads: u64,
    dir: tempfile::TempDir,
}

impl Browser {
    /// `None` is a skip.
    pub fn start() -> Option<Self> {
        let program = find("chromium")?;
        let dir = tempfile::tempdir().unwrap();
        let [commands, answers] = ["commands", "answers"].map(|name| dir.path().join(name));
        for path in [&commands, &answers] {
            let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: the name ends with a zero and lives through the call.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        }
        // The pipe is descriptors 3 and 4 of the browser.
        let child = Command::new("sh")
            .args(["-c", "c=$1 a=$2; shift 2; exec 3<\"$c\" 4>\"$a\"; exec \"$@\"", "sh"])
            .args([&commands, &answers])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--no-first-run",
            ])
            // Nothing but this machine has an address.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = File::options().write(true).open(commands).unwrap();
        let answers = File::open(answers).unwrap();
        let (tell, messages) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(answers);
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && tell.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            number: 0,
            session: String::new(),
            asked: Vec::new(),
            complaints: Vec::new(),
            loads: 0,
            dir,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.size(1100, 900);
        Some(browser)
    }

    /// Carries out a command and answers its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut command = json!({"id": number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.next(until).unwrap_or_else(|| panic!("no answer to {method}"));
            if message["id"] == number {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    fn next(&mut self, until: Instant) -> Option<Value> {
        let left = until.saturating_duration_since(Instant::now());
        let message = self.messages.recv_timeout(left).ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => self.asked.push(text(&message["params"]["request"]["url"])),
            Some("Page.loadEventFired") => self.loads += 1,
            Some("Runtime.exceptionThrown") => self.complaints.push(message["params"].to_string()),
            Some("Runtime.consoleAPICalled") if message["params"]["type"] == "error" => {
                self.complaints.push(message["params"]["args"].to_string());
            }
            Some("Log.entryAdded") => {
                let entry = &message["params"]["entry"];
                if entry["level"] == "error" || entry["source"] == "security" {
                    self.complaints.push(text(&entry["text"]));
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Does something that leads to another page, and waits for it.
    #[track_caller]
    pub fn until_loaded(&mut self, what: impl FnOnce(&mut Self)) {
        let before = self.loads;
        what(self);
        let until = Instant::now() + PATIENCE;
        while self.loads == before {
            self.next(until).expect("no page was loaded");
        }
    }

    #[track_caller]
    pub fn open(&mut self, url: &str) {
        self.until_loaded(|browser| drop(browser.call("Page.navigate", json!({"url": url}))));
    }

    /// The value of an expression of the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let found = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.value(expression) != json!(true) {
            assert!(Instant::now() < until, "never: {expression}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses and lets go of a key: `Tab`, `Enter`, `ArrowDown`.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 40,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types a text where the focus is.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses Tab until the element with the focus makes an expression about it (`e`) true. Each on the way has to be seen.
    #[track_caller]
    pub fn tab_to(&mut self, expression: &str) {
        for _ in 0..200 {
            self.press("Tab");
            let seen = self.value(
                "(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(); \
                 return e === document.body || (s.outlineStyle !== 'none' && r.width > 0 && r.bottom > 0); })()",
            );
            let what = self.value("document.activeElement.outerHTML.slice(0, 200)");
            assert_eq!(seen, json!(true), "the focus can't be seen: {what}");
            if self.value(&format!("((e) => Boolean({expression}))(document.activeElement)")) == json!(true) {
                return;
            }
        }
        panic!("no Tab leads to {expression}");
    }

    pub fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// `screen` or `print`, `light` or `dark`.
    pub fn media(&mut self, media: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    pub fn pdf(&mut self) -> Vec<u8> {
        let printed = self.call("Page.printToPDF", json!({"preferCSSPageSize": true}));
        base64::engine::general_purpose::STANDARD.decode(printed["data"].as_str().unwrap()).unwrap()
    }

    /// Saves a picture of the whole page as `NAME.png` in the folder that HONE_PICTURES names. Without the variable it does nothing.
    pub fn picture(&mut self, name: &str) {
        if pictures().is_some() {
            let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
            let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
            self.keep_picture(name, json!({"captureBeyondViewport": true, "clip": clip}));
        }
    }

    /// Saves a picture of what the window shows, like `picture`.
    pub fn screen(&mut self, name: &str) {
        if pictures().is_some() {
            self.keep_picture(name, json!({}));
        }
    }

    fn keep_picture(&mut self, name: &str, parameters: Value) {
        let taken = self.call("Page.captureScreenshot", parameters);
        let png = base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        keep(&format!("{name}.png"), &png);
    }

    /// Roles and names as a screen reader has them.
    pub fn spoken(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap();
        let word = |value: &Value| value["value"].as_str().unwrap_or_default().trim().to_owned();
        let told = nodes.iter().filter(|node| node["ignored"] != json!(true));
        told.map(|node| (word(&node["role"]), word(&node["name"]))).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
