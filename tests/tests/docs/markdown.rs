//! Parts of Markdown: fenced blocks, code in the text, and the text around both.

/// The contents of fenced blocks marked with `language`.
pub(crate) fn blocks<'a>(markdown: &'a str, language: &str) -> Vec<&'a str> {
    let openings = markdown
        .split(&format!("\n```{language}\n"))
        .skip(1)
        .collect::<Vec<_>>();
    openings
        .into_iter()
        .map(|rest| rest.split_once("\n```\n").expect("a block ends").0)
        .collect()
}

/// All that is not in a fenced block.
pub(crate) fn text(markdown: &str) -> String {
    let mut is_text = true;
    let mut text = String::new();
    for line in markdown.lines() {
        if line.starts_with("```") {
            is_text = !is_text;
        } else if is_text {
            text.push_str(line);
            text.push('\n');
        }
    }
    assert!(is_text, "a block does not end");
    text
}

/// What stands between single backticks outside of blocks.
pub(crate) fn code(markdown: &str) -> Vec<String> {
    let text = text(markdown);
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace('\n', " ")).collect()
}

/// Commands: those of `sh` blocks with their continued lines joined, and those in the text.
pub(crate) fn commands(markdown: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for block in blocks(markdown, "sh") {
        let joined = block.replace("\\\n", " ");
        commands.extend(joined.lines().map(str::to_owned));
    }
    commands.extend(code(markdown));
    let begins = |command: &String| {
        ["kubectl ", "helm ", "curl ", "jevmetrics-"]
            .iter()
            .any(|name| command.starts_with(name))
    };
    commands.retain(begins);
    commands
}

/// What a heading is called in a link, as the usual renderers make it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}

#[test]
fn a_document_is_taken_apart() {
    let document = "# One, two: `three`\na `b\nc` [d](e.md)\n```sh\nkubectl get \\\n  jmp\n# `not code`\n```\n`helm x`\n";
    assert_eq!(commands(document), ["kubectl get    jmp", "helm x"]);
    assert_eq!(code(document), ["three", "b c", "helm x"]);
    assert!(!text(document).contains("not code"));
    assert_eq!(anchor("One, two: `three`"), "one-two-three");
}
