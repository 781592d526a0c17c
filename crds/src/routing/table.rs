//! A table that holds, and how keys are looked up in it.

use std::net::SocketAddr;

use super::{MAX_EPOCH, MAX_KEY_ATTRIBUTES, MAX_OWNERS, rendezvous};

/// Longest uid, in bytes. Those of Kubernetes have 36.
pub(super) const MAX_UID_BYTES: usize = 128;
/// Longest name of a pod, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 253;
/// Longest zone or namespace, in bytes.
pub(super) const MAX_LABEL_BYTES: usize = 63;
/// Longest name in `keyAttributes`, in bytes.
pub(crate) const MAX_ATTRIBUTE_BYTES: usize = 256;

/// Where data is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// Each resource goes to its owner, in one hop at most.
    Forward,
    /// Where it arrives: a tier in front routes.
    Upstream,
    /// Where it arrives.
    None,
}

impl Affinity {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "Forward",
            Self::Upstream => "Upstream",
            Self::None => "None",
        }
    }
}

/// Of what the affinity key of a resource is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// `service.namespace`, `service.name` and what tells the instances of a service apart.
    Source,
    /// These attributes; of a resource that has none of them, all.
    Listed(Vec<String>),
    /// These attributes, present or not: what has one identity has one owner.
    Context(Vec<String>),
}

impl KeySource {
    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Source => "Source",
            Self::Listed(_) => "Listed",
            Self::Context(_) => "Context",
        }
    }

    /// The names of attributes that it lists, sorted.
    pub fn attributes(&self) -> Option<&[String]> {
        match self {
            Self::Source => None,
            Self::Listed(names) | Self::Context(names) => Some(names),
        }
    }

    fn attributes_mut(&mut self) -> Option<&mut Vec<String>> {
        match self {
            Self::Source => None,
            Self::Listed(names) | Self::Context(names) => Some(names),
        }
    }
}

/// Whose table it is. Addresses of pods are used again by others: who finds another identity has reached a stranger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterIdentity {
    /// The policy's namespace.
    pub namespace: String,
    /// The policy's uid.
    pub policy: String,
}

/// All of a table but its epoch and its owners.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Header {
    /// Whose it is.
    pub cluster: ClusterIdentity,
    /// Where data is worked on.
    pub affinity: Affinity,
    /// Of what keys are made.
    pub key: KeySource,
}

/// A slot and the pod that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Below [`MAX_OWNERS`].
    pub slot: u16,
    /// The pod's uid.
    pub uid: String,
    /// The pod's name.
    pub name: String,
    /// Where the pod takes what others forward.
    pub address: SocketAddr,
    /// The zone of the pod's node, if it is known.
    pub zone: Option<String>,
}

/// Which pod owns which resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingTable {
    epoch: u64,
    header: Header,
    owners: Vec<Owner>,
    seeds: Vec<u64>,
}

/// What is no table. Nothing of its texts is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// 0 is before the first, and beyond [`MAX_EPOCH`] numbers blur.
    #[error("epoch: must be from 1 to {MAX_EPOCH}, is {0}")]
    Epoch(u64),
    /// Resources must have an owner.
    #[error("owners: must have 1 to {MAX_OWNERS} items, has {0}")]
    Owners(usize),
    /// Slots are small.
    #[error("owners: slots must be below {MAX_OWNERS}, one is {0}")]
    Slot(u16),
    /// Two pods cannot hold one slot.
    #[error("owners: slot {0} must be given once, is given again")]
    SlotTwice(u16),
    /// A pod cannot hold two slots.
    #[error("owners: slot {0} is held by the pod of another slot")]
    PodTwice(u16),
    /// Nobody is reached there.
    #[error("owners: the address of slot {0} must have a port")]
    Port(u16),
    /// A text is empty, too long, or has characters that do not belong there.
    #[error("{0}: must have 1 to {1} characters of printable ASCII without spaces")]
    Word(&'static str, usize),
    /// An explicit list of attributes must name some, and none at any length.
    #[error("keyAttributes: must have 1 to {MAX_KEY_ATTRIBUTES} names of 1 to {MAX_ATTRIBUTE_BYTES} bytes")]
    KeyAttributes,
}

impl RoutingTable {
    /// The table of these owners, in whatever order they come.
    pub fn new(epoch: u64, mut header: Header, mut owners: Vec<Owner>) -> Result<Self, TableError> {
        if !(1..=MAX_EPOCH).contains(&epoch) {
            return Err(TableError::Epoch(epoch));
        }
        check_header(&mut header)?;
        check_owners(&mut owners)?;
        Ok(Self {
            epoch,
            header,
            seeds: owners.iter().map(|owner| rendezvous::seed(owner.slot)).collect(),
            owners,
        })
    }

    /// Which table of this cluster it is: a later one has a higher number.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All but epoch and owners.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Every slot, sorted by number.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Who owns the resources with this affinity key.
    pub fn owner(&self, key: u64) -> &Owner {
        &self.owners[rendezvous::highest(&self.seeds, key)]
    }

    /// Who takes them if the owner cannot be reached; nobody in a table of one.
    pub fn rank2(&self, key: u64) -> Option<&Owner> {
        rendezvous::second_highest(&self.seeds, key).map(|place| &self.owners[place])
    }

    /// The slot of a pod, by its uid.
    pub fn slot_of(&self, uid: &str) -> Option<u16> {
        let owner = self.owners.iter().find(|owner| owner.uid == uid)?;
        Some(owner.slot)
    }
}

fn check_header(header: &mut Header) -> Result<(), TableError> {
    word("cluster.namespace", &header.cluster.namespace, MAX_LABEL_BYTES)?;
    word("cluster.policy", &header.cluster.policy, MAX_UID_BYTES)?;
    if let Some(names) = header.key.attributes_mut() {
        names.sort_unstable();
        names.dedup();
        let is_long = |name: &String| !(1..=MAX_ATTRIBUTE_BYTES).contains(&name.len());
        if !(1..=MAX_KEY_ATTRIBUTES).contains(&names.len()) || names.iter().any(is_long) {
            return Err(TableError::KeyAttributes);
        }
    }
    Ok(())
}

fn check_owners(owners: &mut [Owner]) -> Result<(), TableError> {
    if !(1..=MAX_OWNERS).contains(&owners.len()) {
        return Err(TableError::Owners(owners.len()));
    }
    for owner in &*owners {
        if usize::from(owner.slot) >= MAX_OWNERS {
            return Err(TableError::Slot(owner.slot));
        }
        word("owners: uid", &owner.uid, MAX_UID_BYTES)?;
        word("owners: name", &owner.name, MAX_NAME_BYTES)?;
        if let Some(zone) = &owner.zone {
            word("owners: zone", zone, MAX_LABEL_BYTES)?;
        }
        if owner.address.port() == 0 {
            return Err(TableError::Port(owner.slot));
        }
    }
    owners.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
    if let Some(pair) = owners.windows(2).find(|pair| pair[0].uid == pair[1].uid) {
        return Err(TableError::PodTwice(pair[1].slot));
    }
    owners.sort_unstable_by_key(|owner| owner.slot);
    match owners.windows(2).find(|pair| pair[0].slot == pair[1].slot) {
        Some(pair) => Err(TableError::SlotTwice(pair[0].slot)),
        None => Ok(()),
    }
}

fn word(field: &'static str, text: &str, most: usize) -> Result<(), TableError> {
    if is_word(text, most) {
        Ok(())
    } else {
        Err(TableError::Word(field, most))
    }
}

/// What names of Kubernetes are made of, and more: nothing that could break a line of a log.
pub(super) fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
