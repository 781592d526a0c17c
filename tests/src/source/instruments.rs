//! Instruments as OpenTelemetry's semantic conventions name them.

/// Name, unit, description, and what kind of points it has.
pub(super) struct Instrument {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    UpDown,
    Gauge,
    Histogram,
    Exponential,
    Summary,
}

const fn of(name: &'static str, unit: &'static str, description: &'static str, kind: Kind) -> Instrument {
    Instrument {
        name,
        unit,
        description,
        kind,
    }
}

/// The mix of kinds is chosen so that an average point has about 200 bytes.
#[rustfmt::skip]
pub(super) const INSTRUMENTS: [Instrument; 50] = [
    of("http.server.request.duration", "s", "Duration of HTTP server requests.", Kind::Histogram),
    of("http.server.active_requests", "{request}", "Number of active HTTP server requests.", Kind::UpDown),
    of("http.server.request.body.size", "By", "Size of HTTP server request bodies.", Kind::Counter),
    of("http.server.response.body.size", "By", "Size of HTTP server response bodies.", Kind::Counter),
    of("http.client.request.count", "{request}", "Number of HTTP client requests sent.", Kind::Counter),
    of("http.client.open_connections", "{connection}", "Number of outbound connections that are active or idle.", Kind::UpDown),
    of("http.client.connection.duration", "s", "Duration of successfully established outbound connections.", Kind::Exponential),
    of("http.client.active_requests", "{request}", "Number of active HTTP client requests.", Kind::UpDown),
    of("rpc.server.call.count", "{call}", "Number of incoming remote procedure calls.", Kind::Counter),
    of("rpc.server.call.errors", "{call}", "Number of incoming calls that failed.", Kind::Counter),
    of("rpc.client.call.count", "{call}", "Number of outgoing remote procedure calls.", Kind::Counter),
    of("rpc.client.call.retries", "{retry}", "Number of retries of outgoing calls.", Kind::Counter),
    of("db.client.operation.count", "{operation}", "Number of database client operations.", Kind::Counter),
    of("db.client.connection.count", "{connection}", "Connections currently in the state described by the attribute.", Kind::UpDown),
    of("db.client.connection.idle.max", "{connection}", "The maximum number of idle open connections allowed.", Kind::UpDown),
    of("db.client.connection.pending_requests", "{request}", "Current pending requests for an open connection.", Kind::UpDown),
    of("db.client.connection.wait_time", "s", "Time it took to obtain an open connection from the pool.", Kind::Summary),
    of("messaging.client.sent.messages", "{message}", "Number of messages producer attempted to send.", Kind::Counter),
    of("messaging.client.consumed.messages", "{message}", "Number of messages delivered to the application.", Kind::Counter),
    of("messaging.process.backlog", "{message}", "Messages waiting to be processed.", Kind::Gauge),
    of("system.cpu.time", "s", "Seconds each logical CPU spent on each mode.", Kind::Counter),
    of("system.cpu.utilization", "1", "Share of time the CPU spent on each mode.", Kind::Gauge),
    of("system.memory.usage", "By", "Reports memory in use by state.", Kind::UpDown),
    of("system.memory.utilization", "1", "Share of memory in use by state.", Kind::Gauge),
    of("system.disk.io", "By", "Disk bytes transferred.", Kind::Counter),
    of("system.disk.operations", "{operation}", "Disk operations.", Kind::Counter),
    of("system.disk.io_time", "s", "Time disk spent activated.", Kind::Counter),
    of("system.filesystem.usage", "By", "Bytes used by the filesystem.", Kind::UpDown),
    of("system.filesystem.utilization", "1", "Share of the filesystem in use.", Kind::Gauge),
    of("system.network.io", "By", "Bytes transferred over the network.", Kind::Counter),
    of("system.network.packet.dropped", "{packet}", "Count of packets that are dropped or discarded.", Kind::Counter),
    of("system.network.errors", "{error}", "Count of network errors detected.", Kind::Counter),
    of("process.cpu.time", "s", "Total CPU seconds broken down by different states.", Kind::Counter),
    of("process.memory.usage", "By", "The amount of physical memory in use.", Kind::UpDown),
    of("process.open_file_descriptor.count", "{count}", "Number of file descriptors in use by the process.", Kind::UpDown),
    of("jvm.memory.used", "By", "Measure of memory used.", Kind::UpDown),
    of("jvm.memory.committed", "By", "Measure of memory committed.", Kind::UpDown),
    of("jvm.memory.limit", "By", "Measure of max obtainable memory.", Kind::UpDown),
    of("jvm.gc.count", "{collection}", "Garbage collections by name and action.", Kind::Counter),
    of("jvm.thread.count", "{thread}", "Number of executing platform threads.", Kind::UpDown),
    of("jvm.class.loaded", "{class}", "Number of classes loaded since JVM start.", Kind::Counter),
    of("jvm.cpu.recent_utilization", "1", "Recent CPU utilization for the process as reported by the JVM.", Kind::Gauge),
    of("jvm.buffer.memory.used", "By", "Measure of memory used by buffers.", Kind::UpDown),
    of("container.cpu.usage", "{cpu}", "Container's CPU usage, measured in cpus.", Kind::Gauge),
    of("container.memory.working_set", "By", "Container memory working set.", Kind::Gauge),
    of("k8s.pod.cpu.usage", "{cpu}", "Pod's CPU usage, measured in cpus.", Kind::Gauge),
    of("k8s.pod.memory.usage", "By", "Memory usage of the Pod.", Kind::Gauge),
    of("k8s.node.condition.ready", "1", "Whether the node is ready.", Kind::Gauge),
    of("k8s.deployment.available_pods", "{pod}", "Total number of available replica pods.", Kind::UpDown),
    of("go.goroutine.count", "{goroutine}", "Count of live goroutines.", Kind::UpDown),
];

/// Words put behind a name when the list is used up.
pub(super) const MODULES: [&str; 20] = [
    "checkout",
    "payment",
    "catalogue",
    "shipping",
    "inventory",
    "pricing",
    "identity",
    "search",
    "basket",
    "email",
    "fraud",
    "ledger",
    "review",
    "export",
    "ingest",
    "gateway",
    "session",
    "ranking",
    "media",
    "support",
];
