//! Reads the audit log on from where it was left.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use super::effect::Versions;
use super::event::Event;
use super::request::Request;
use crate::cluster::error::{ClusterError, io_error};

/// All that was read of a log.
#[derive(Debug)]
pub(crate) struct Log {
    file: PathBuf,
    /// Where the first line begins that was not read.
    offset: u64,
    lines: usize,
    /// Watches whose beginning was told: their end is no other request.
    begun: HashSet<String>,
    versions: Versions,
    requests: Vec<Request>,
}

impl Log {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file,
            offset: 0,
            lines: 0,
            begun: HashSet::new(),
            versions: Versions::default(),
            requests: Vec::new(),
        }
    }

    /// All requests from the beginning to the last complete line.
    pub(crate) fn read(&mut self) -> Result<&[Request], ClusterError> {
        let bytes = self.unread().map_err(io_error("cannot read the audit log"))?;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            self.offset += line.len() as u64;
            self.lines += 1;
            let event = serde_json::from_slice(line).map_err(|source| ClusterError::Audit {
                line: self.lines,
                source,
            })?;
            self.add(event);
        }
        Ok(&self.requests)
    }

    fn unread(&self) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn add(&mut self, event: Event) {
        if event.stage == "ResponseStarted" {
            self.begun.insert(event.audit_id.clone());
        } else if self.begun.remove(&event.audit_id) {
            return;
        }
        let effect = self.versions.effect(&event);
        let object = event.object_ref.unwrap_or_default();
        // A name that the server has made is only in its answer.
        let made = event.response_object.map(|object| object.metadata.name);
        self.requests.push(Request {
            received: event.request_received_timestamp,
            user: event.impersonated_user.unwrap_or(event.user).username,
            verb: event.verb,
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: Some(object.name)
                .filter(|name| !name.is_empty())
                .or(made)
                .unwrap_or_default(),
            code: event.response_status.map_or(0, |status| status.code),
            user_agent: event.user_agent,
            uri: event.request_uri,
            effect,
        });
    }
}
