//! The form of a script: comments, input lines, `----`, expected lines, an empty line.

/// A place in a script and what is wrong there.
pub(crate) type Fault = (usize, String);

/// A script, ready to be run or to be written anew.
pub(crate) struct Script {
    pub(crate) blocks: Vec<Block>,
    /// The lines after the last block.
    tail: String,
}

/// Inputs, and what should come out.
pub(crate) struct Block {
    /// The line of the first input.
    pub(crate) line: usize,
    /// Everything up to and including the separator, as it stands in the file.
    head: String,
    pub(crate) inputs: Vec<Input>,
    pub(crate) expected: String,
}

/// One input, which may go over several lines.
pub(crate) struct Input {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// Whether it goes into the same entry as the input before it.
    pub(crate) joined: bool,
}

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Script, Fault> {
        if !text.starts_with("# ") {
            return Err((1, "a script begins with a comment that says what it shows".into()));
        }
        let mut blocks = Vec::new();
        let mut head = String::new();
        let mut inputs: Vec<Input> = Vec::new();
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        while let Some((number, line)) = lines.next() {
            head.push_str(line);
            head.push('\n');
            if line == "----" {
                let Some(first) = inputs.first() else {
                    return Err((number, "a separator without an input".into()));
                };
                let line = first.line;
                let mut expected = String::new();
                for (_, output) in lines.by_ref().take_while(|(_, line)| !line.is_empty()) {
                    expected.push_str(output);
                    expected.push('\n');
                }
                let (head, inputs) = (std::mem::take(&mut head), std::mem::take(&mut inputs));
                blocks.push(Block { line, head, inputs, expected });
            } else if !line.is_empty() && !line.starts_with('#') {
                add_input(&mut inputs, number, line)?;
            }
        }
        match inputs.first() {
            Some(input) => Err((input.line, "an input without a separator".into())),
            None => Ok(Script { blocks, tail: head }),
        }
    }

    /// The script with other expectations.
    pub(crate) fn with_outputs(&self, outputs: &[String]) -> String {
        let mut text = String::new();
        for (at, (block, output)) in self.blocks.iter().zip(outputs).enumerate() {
            text.push_str(&block.head);
            text.push_str(output);
            if at + 1 < self.blocks.len() || !self.tail.is_empty() {
                text.push('\n');
            }
        }
        text + &self.tail
    }
}

fn add_input(inputs: &mut Vec<Input>, line: usize, text: &str) -> Result<(), Fault> {
    if let Some(more) = text.strip_prefix("  ") {
        let Some(before) = inputs.last_mut() else {
            return Err((line, "nothing before this line to continue".into()));
        };
        before.text.push(' ');
        before.text.push_str(more.trim_start());
        return Ok(());
    }
    let (text, joined) = match text.strip_prefix("+ ") {
        Some(text) if inputs.is_empty() => {
            return Err((line, format!("nothing before `{text}` to join")));
        }
        Some(text) => (text, true),
        None => (text, false),
    };
    inputs.push(Input { line, text: text.into(), joined });
    Ok(())
}
