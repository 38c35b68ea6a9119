//! Manual pages, generated from the argument definitions.

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::Args;

/// The last section of every page.
const STATUS: &str = ".SH \"EXIT STATUS\"\n\
    0: success. 1: a run failed, or a run of a sweep. 2: the command line or a file is invalid. \
    130: interrupted.\n";

/// A single page for all commands.
pub(crate) fn page() -> String {
    let root = built();
    let mut page = rendered(&root, |man, to| {
        man.render_title(to)?;
        man.render_name_section(to)?;
        man.render_synopsis_section(to)?;
        man.render_description_section(to)
    });
    for command in subcommands(&root) {
        page.push_str(&format!(".SH \"{}\"\n", name(command).to_uppercase()));
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page.push_str(&format!("{about}.\n"));
        let parts = rendered(command, |man, to| {
            man.render_synopsis_section(to)?;
            man.render_options_section(to)
        });
        page.push_str(&parts.replace(".SH ", ".SS "));
    }
    page + STATUS
}

/// A page for each subcommand, and one that names them: (name of a file, content).
pub(crate) fn pages() -> Vec<(String, Vec<u8>)> {
    let root = built();
    let all = std::iter::once(&root).chain(subcommands(&root));
    let page = |command: &Command| {
        let text = rendered(command, |man, to| man.render(to)) + STATUS;
        (format!("{}.1", name(command).replace(' ', "-")), text.into_bytes())
    };
    all.map(page).collect()
}

fn built() -> Command {
    let mut root = Args::command();
    root.build();
    root
}

/// The shown subcommands. One that has subcommands of its own is replaced by them.
fn subcommands(root: &Command) -> Vec<&Command> {
    let is_shown = |command: &&Command| command.get_name() != "help" && !command.is_hide_set();
    let leaves = |command| match subcommands(command) {
        none if none.is_empty() => vec![command],
        below => below,
    };
    root.get_subcommands().filter(is_shown).flat_map(leaves).collect()
}

/// The full name of a command.
fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Renders a part of a page.
fn rendered(
    command: &Command,
    render: impl FnOnce(&Man, &mut Vec<u8>) -> std::io::Result<()>,
) -> String {
    let mut bytes = Vec::new();
    render(&Man::new(command.clone()), &mut bytes).expect("memory can be written");
    let text = String::from_utf8_lossy(&bytes);
    // Some viewers of manual pages accept only ASCII.
    let shown = |c: char| {
        if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", c as u32) }
    };
    text.chars().map(shown).collect()
}
