//! JSON Schemas for record values.

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;

/// Where the inline schema lives for the compiler. Nothing is ever loaded from it.
const LOCATION: &str = "hone:///value.json";
/// Longest complaint about one record that is sent back.
const COMPLAINT_BYTES: usize = 300;

/// A compiled schema, shared by all reactors.
pub(crate) struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// A schema comes from a client, so a reference to anything outside of it is refused: no file is read for it.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!(
            "`{url}` is outside of the inline schema; the broker follows only references inside \
                     the schema"
        )
        .into())
    }
}

impl Schema {
    /// Compiles an inline schema (draft 2020-12 unless it names another one).
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("the schema is not JSON: {error}"))?;
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(NoLoader));
        compiler.add_resource(LOCATION, document).map_err(|error| error.to_string())?;
        let index = compiler
            .compile(LOCATION, &mut schemas)
            .map_err(|error| format!("not a JSON Schema: {error:#}"))?;
        Ok(Self { schemas, index })
    }

    /// Checks one record value. The error says what is wrong with it.
    pub(crate) fn check(&self, value: Option<&[u8]>) -> Result<(), String> {
        let bytes =
            value.ok_or_else(|| "the value is null, but the topic's schema requires JSON".to_owned())?;
        let document: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("the value is not JSON: {error}"))?;
        self.schemas.validate(&document, self.index).map_err(|error| complaint(&format!("{error}")))
    }
}

/// The reasons, without the line above them that only names the schema, as one line of at most [`COMPLAINT_BYTES`].
fn complaint(text: &str) -> String {
    let reasons = text.split_once('\n').map_or(text, |(_, reasons)| reasons);
    let mut line = String::with_capacity(reasons.len().min(COMPLAINT_BYTES));
    for word in reasons.trim_start_matches("- ").split_whitespace() {
        if line.len() + word.len() >= COMPLAINT_BYTES {
            line.push_str(" ...");
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = r##"{"type": "object", "required": ["id"], "additionalProperties": false,
        "properties": {"id": {"type": "integer", "minimum": 1}, "name": {"$ref": "#/$defs/text"}},
        "$defs": {"text": {"type": "string", "maxLength": 5}}}"##;

    fn verdict(value: Option<&[u8]>) -> String {
        Schema::compile(ORDER).unwrap().check(value).err().unwrap_or_default()
    }

    #[test]
    fn values_are_held_against_the_schema() {
        assert_eq!(verdict(Some(br#"{"id": 1, "name": "abc"}"#)), "");
        for (value, wanted) in [
            (br#"{"id": 0}"#.as_slice(), "at '/id': must be >=1"),
            (br#"{"name": "abc"}"#, "id"),
            (br#"{"id": 1, "name": "abcdef"}"#, "length"),
            (br#"{"id": 1, "x": 1}"#, "x"),
            (br#"{"id": 1"#, "not JSON"),
            (b"\xff", "not JSON"),
            (b"", "not JSON"),
        ] {
            let found = verdict(Some(value));
            assert!(found.contains(wanted), "{found}");
        }
        assert!(verdict(None).contains("null"));
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        for (text, wanted) in [
            ("{", "not JSON"),
            (r#"{"type": "objct"}"#, "not a JSON Schema"),
            (r#"{"$ref": "file:///etc/passwd"}"#, "outside of the inline schema"),
            (r##"{"$ref": "#/nowhere"}"##, "not a JSON Schema"),
        ] {
            let error = Schema::compile(text).err().unwrap_or_default();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
