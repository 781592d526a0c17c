//! Commands as a person types them: shown, run, and what they print.

use jevmetrics_testkit::node::Node;

use super::NAMESPACE;
use crate::Failure;

/// Whoever types, in the cluster of `node`.
pub(crate) struct Person<'a> {
    pub(crate) node: &'a Node,
}

impl Person<'_> {
    /// Shows a command with its output.
    pub(crate) async fn kubectl(&self, line: &str) -> Result<String, Failure> {
        println!("   $ kubectl {line}");
        let printed = self.quietly(line).await?;
        show(&printed);
        Ok(printed)
    }

    /// As with kubectl.
    pub(crate) async fn helm(&self, line: &str) -> Result<(), Failure> {
        println!("   $ helm {line}");
        jevmetrics_testkit::helm::on(self.node.plane(), &words(line)).await?;
        Ok(())
    }

    /// Runs a command that nobody wants to see.
    pub(crate) async fn quietly(&self, line: &str) -> Result<String, Failure> {
        Ok(self.node.plane().kubectl(&words(line)).await?)
    }

    /// Applies `manifests`, shown as `line`.
    pub(crate) async fn apply(&self, line: &str, manifests: &str) -> Result<(), Failure> {
        println!("   $ {line}");
        let plane = self.node.plane();
        let admin = plane.admin_kubeconfig();
        let arguments = ["apply", "--server-side", "-n", NAMESPACE, "-f", "-"];
        show(&plane.kubectl_with(&admin, &arguments, manifests).await?);
        Ok(())
    }
}

fn show(printed: &str) {
    for line in printed.lines() {
        println!("     {line}");
    }
}

/// As a shell divides a line of plain words and words in single quotes.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace()
        .map(|word| word.trim_matches('\''))
        .collect()
}
