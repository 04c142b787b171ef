//! One picture of a page as an SVG file of its own: its style is inside, in the colours of a light page.

use std::collections::BTreeSet;

use crate::document::STYLE;

use super::frame::OWN_STYLE;

/// The picture with this id on a page of this crate. `None` if the page has none.
///
/// The search can't find text of a record: text has no unescaped quotation mark.
pub fn picture(page: &str, id: &str) -> Option<String> {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if id.is_empty() || !id.chars().all(is_plain) {
        return None;
    }
    let (before, _) = page.split_once(&format!("aria-labelledby=\"{id}-wide-title "))?;
    let begin = before.rfind("<svg")?;
    let (picture, _) = page.get(begin..)?.split_once("</svg>")?;
    let inner = picture.strip_prefix("<svg")?;
    let [.., width, height] = view_box(inner)?;
    let style = style(inner);
    let head = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\""
    );
    let (attributes, body) = inner.split_once('>')?;
    Some(format!(
        "{head}{attributes}><style>{style}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"></rect>{body}</svg>\n"
    ))
}

fn view_box(tag: &str) -> Option<[f64; 4]> {
    let (_, rest) = tag.split_once("viewBox=\"")?;
    let (numbers, _) = rest.split_once('"')?;
    let numbers: Vec<f64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().ok()
}

/// The style of pictures, without rules for screens and paper, and with the colours in place of their names. Few programs besides
/// browsers know names of colours.
fn style(picture: &str) -> String {
    let classes = classes(picture);
    let all = without_blocks(&format!("{STYLE}\n{OWN_STYLE}"));
    let mut colours: Vec<(&str, &str)> = Vec::new();
    let root = all.split_once(":root {").and_then(|(_, rest)| rest.split_once('}')).map(|(root, _)| root);
    for rule in root.unwrap_or_default().split(';') {
        let pair = rule.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        colours.extend(pair.filter(|(name, _)| name.starts_with("--")));
    }
    let mut plain = String::new();
    for rule in all.split_inclusive('}') {
        let rule = rule.trim();
        if is_used(rule, &classes) {
            plain.push_str(rule);
        }
    }
    for (name, value) in colours {
        plain = plain.replace(&format!("var({name})"), value);
    }
    // An image has no page to take its font from.
    plain.replace("font-family: inherit", "font-family: system-ui, sans-serif")
}

/// Whether a rule is about classes that the picture uses.
fn is_used(rule: &str, classes: &BTreeSet<&str>) -> bool {
    let selectors = rule.split_once('{').map_or("", |(selectors, _)| selectors);
    let end = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '-');
    let is_used = |selector: &str| {
        let mut named = selector.split('.').skip(1).map(|rest| rest.split(end).next().unwrap_or_default());
        selector.contains('.') && named.all(|name| classes.contains(name))
    };
    selectors.split(',').any(is_used)
}

/// All classes of a picture.
fn classes(picture: &str) -> BTreeSet<&str> {
    let values = picture.split("class=\"").skip(1).filter_map(|rest| rest.split('"').next());
    values.flat_map(|value| value.split(' ')).collect()
}

/// Without comments and without `@` blocks.
fn without_blocks(style: &str) -> String {
    let mut plain = String::new();
    for part in style.split("/*") {
        plain.push_str(part.split_once("*/").map_or(part, |(_, rest)| rest));
    }
    let mut kept = String::new();
    let mut rest = plain.as_str();
    while let Some((before, block)) = rest.split_once('@') {
        kept.push_str(before);
        let mut depth = 0_usize;
        let end = block.char_indices().find_map(|(at, letter)| {
            match letter {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            (letter == '}' && depth == 0).then_some(at + 1)
        });
        rest = end.and_then(|end| block.get(end..)).unwrap_or_default();
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<p>aria-labelledby=&quot;x-wide-title </p><svg class=\"plot wide\" viewBox=\"0 0 880 250.5\" role=\"img\" \
         aria-labelledby=\"x-wide-title x-wide-desc\"><title id=\"x-wide-title\">T &amp; t</title><path class=\"line a\" d=\"M0 0\"></path></svg>\
         <svg class=\"plot narrow\" viewBox=\"0 0 360 9\" aria-labelledby=\"x-narrow-title x-narrow-desc\"></svg>";

    #[test]
    fn a_picture_is_a_file_of_its_own() {
        let svg = picture(PAGE, "x").unwrap();
        assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\" width=\"880\" height=\"250.5\""), "{svg}");
        assert!(svg.contains("T &amp; t") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1, "{svg}");
    }

    #[test]
    fn only_pictures_of_the_page_are_found() {
        for id in ["y", "", "x-wide-title x", "x\"", "../x"] {
            assert_eq!(picture(PAGE, id), None, "{id}");
        }
    }

    #[test]
    fn the_style_has_colours_and_no_rules_of_the_page() {
        let style = style("<path class=\"line a\"></path><circle class=\"dot b\"></circle>");
        assert!(style.contains(".line.a { stroke: #0072b2;") && style.contains(".dot.b"), "{style}");
        for part in ["var(", "@media", "body", "display: none", "/*", "<", ".chip", ".band"] {
            assert!(!style.contains(part), "{part}: {style}");
        }
    }
}
